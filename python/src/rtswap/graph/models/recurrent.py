"""Recurrent networks of LSTM cells, each operator of each cell by itself as a framework without fused kernels runs them."""

from __future__ import annotations

from typing import List

import torch
from torch import nn


class Cell(nn.Module):
    """An LSTM cell (Hochreiter and Schmidhuber, Neural Computation 1997)."""

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.input = nn.Linear(inputs, 4 * size)
        self.hidden = nn.Linear(size, 4 * size)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> List[torch.Tensor]:
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return [torch.sigmoid(o) * torch.tanh(c), c]


def _layer(cell: Cell, xs: List[torch.Tensor], size: int) -> List[torch.Tensor]:
    h = c = torch.zeros(xs[0].shape[0], size, device=xs[0].device)
    made = []
    for x in xs:
        h, c = cell(x, h, c)
        made.append(h)
    return made


class Rnn(nn.Module):
    """``layers`` layers of ``size`` cells on ``length`` elements of a sequence."""

    def __init__(self, layers: int, size: int, both: bool, classes: int) -> None:
        super().__init__()
        self.size = size
        ways = 2 if both else 1
        self.ways = ways
        self.layers = nn.ModuleList(
            nn.ModuleList(Cell(size if not layer else ways * size, size) for _ in range(ways))
            for layer in range(layers)
        )
        self.end = nn.Linear(ways * size, classes)

    def forward(self, xs: List[torch.Tensor]) -> torch.Tensor:
        for layer in self.layers:
            made = _layer(layer[0], xs, self.size)
            if self.ways == 2:
                back = _layer(layer[1], xs[::-1], self.size)[::-1]
                made = [torch.cat(pair, 1) for pair in zip(made, back)]
            xs = made
        return self.end(xs[-1])
