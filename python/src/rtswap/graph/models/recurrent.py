"""Recurrent networks of LSTM cells; each operator of a cell is a kernel of its own, as in a framework without fused
cells.
"""

from __future__ import annotations

import torch
from torch import nn


class Cell(nn.Module):
    """An LSTM cell with a forget gate (Hochreiter and Schmidhuber, 1997; Gers et al., 2000): (input, hidden, cell) to
    (hidden, cell).
    """

    def __init__(self, in_features: int, size: int) -> None:
        super().__init__()
        self.input = nn.Linear(in_features, 4 * size)
        self.hidden = nn.Linear(size, 4 * size)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Rnn(nn.Module):
    """Classifies a sequence, a list of tensors of (batch, size), with ``layers`` layers of cells of this size.

    In a bidirectional one, each layer has a second cell that runs over the reversed sequence, and the results of both
    are concatenated.
    """

    def __init__(self, layers: int, size: int, is_bidirectional: bool, classes: int) -> None:
        super().__init__()
        self.size = size
        self.is_bidirectional = is_bidirectional
        ways = 2 if is_bidirectional else 1
        self.layers = nn.ModuleList(
            nn.ModuleList(Cell(size if layer == 0 else ways * size, size) for _ in range(ways))
            for layer in range(layers)
        )
        self.end = nn.Linear(ways * size, classes)

    def forward(self, sequence: list[torch.Tensor]) -> torch.Tensor:
        for cells in self.layers:
            hidden = self._run(cells[0], sequence)
            if self.is_bidirectional:
                back = self._run(cells[1], sequence[::-1])[::-1]
                hidden = [torch.cat(pair, 1) for pair in zip(hidden, back)]
            sequence = hidden
        return self.end(sequence[-1])

    def _run(self, cell: nn.Module, sequence: list[torch.Tensor]) -> list[torch.Tensor]:
        h = c = torch.zeros(sequence[0].shape[0], self.size, device=sequence[0].device)
        hidden = []
        for x in sequence:
            h, c = cell(x, h, c)
            hidden.append(h)
        return hidden
