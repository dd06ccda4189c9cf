"""Transformers: an encoder of BERT-base's size (Devlin et al., NAACL 2019), a decoder of GPT-2's (Radford et al., 2019)."""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    """Self-attention, each product by itself."""

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.all = nn.Linear(size, 3 * size)
        self.end = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        parts = self.all(x).view(batch, length, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * (size // self.heads) ** -0.5
        if self.causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(mask, float("-inf"))
        y = torch.softmax(scores, -1) @ v
        return self.end(y.transpose(1, 2).reshape(batch, length, size))


class Layer(nn.Module):
    """One layer, normalised before its parts as GPT-2 does, or behind them as BERT does."""

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.first = causal
        self.attention = Attention(size, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    """``layers`` layers on tokens; gives a score for each word of the vocabulary at each place."""

    def __init__(self, words: int, length: int, size: int, heads: int, layers: int, causal: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.places = nn.Embedding(length, size)
        self.layers = nn.Sequential(*[Layer(size, heads, causal) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.layers(self.words(tokens) + self.places(places)))
        # The scores have the weights of the words.
        return x @ self.words.weight.t()


def bert_base() -> Transformer:
    return Transformer(30522, 512, 768, 12, 12, causal=False)


def gpt2() -> Transformer:
    return Transformer(50257, 1024, 768, 12, 12, causal=True)
