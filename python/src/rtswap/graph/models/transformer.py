"""Transformers: the encoder BERT-base (Devlin et al., NAACL 2019) and the decoder GPT-2 (Radford et al., 2019).

Attention is two batched products with a softmax between them, as both were published: no fused kernel.
"""

from __future__ import annotations

import torch
from torch import nn

_DROPOUT = 0.1


class Attention(nn.Module):
    """Self-attention on (batch, length, size); causal if no element may see those after it."""

    def __init__(self, size: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.is_causal = is_causal
        self.projection = nn.Linear(size, 3 * size)
        self.dropout = nn.Dropout(_DROPOUT)
        self.output = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        parts = self.projection(x).view(batch, length, 3, self.heads, size // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) * (size // self.heads) ** -0.5
        if self.is_causal:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(mask, float("-inf"))
        y = self.dropout(torch.softmax(scores, -1)) @ value
        return self.output(y.transpose(1, 2).reshape(batch, length, size))


class Layer(nn.Module):
    """Attention and a perceptron, both added to their input and normalised: before them in GPT-2, and after the sum in
    BERT.
    """

    def __init__(self, size: int, heads: int, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.attention = Attention(size, heads, is_decoder)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_decoder:
            x = x + self.dropout(self.attention(self.norm1(x)))
            return x + self.dropout(self.mlp(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class Bert(nn.Module):
    """Scores of each word for each place, to predict masked words; tokens and segments of (batch, length)."""

    def __init__(self, words: int, places: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.places = nn.Embedding(places, size)
        self.segments = nn.Embedding(2, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(_DROPOUT)
        self.layers = nn.Sequential(*[Layer(size, heads, is_decoder=False) for _ in range(layers)])
        self.transform = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.LayerNorm(size))
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places) + self.segments(segments)
        x = self.transform(self.layers(self.dropout(self.norm(x))))
        # The scores share the weight of the words' embedding.
        return nn.functional.linear(x, self.words.weight, self.bias)


class Gpt(nn.Module):
    """Scores of each word for the place after each token; tokens of (batch, length)."""

    def __init__(self, words: int, places: int, size: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.places = nn.Embedding(places, size)
        self.dropout = nn.Dropout(_DROPOUT)
        self.layers = nn.Sequential(*[Layer(size, heads, is_decoder=True) for _ in range(layers)])
        self.norm = nn.LayerNorm(size)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.words(tokens) + self.places(places))
        # The scores share the weight of the words' embedding.
        return nn.functional.linear(self.norm(self.layers(x)), self.words.weight)


def bert_base() -> nn.Module:
    """110 million parameters."""
    return Bert(words=30522, places=512, size=768, heads=12, layers=12)


def gpt2() -> nn.Module:
    """The smallest GPT-2: 124 million parameters, which its paper counts as 117."""
    return Gpt(words=50257, places=1024, size=768, heads=12, layers=12)
