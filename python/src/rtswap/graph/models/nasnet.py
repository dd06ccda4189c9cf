"""NASNet-A (Zoph et al., CVPR 2018, figure 4 and appendix), with as many normal cells as one asks for."""

from __future__ import annotations

from typing import Tuple

import torch
from torch import nn


class Separable(nn.Module):
    """A separable convolution, twice, as all of NASNet's are applied."""

    def __init__(self, before: int, after: int, size: int, stride: int = 1) -> None:
        super().__init__()
        steps = []
        for first, (channels, step) in enumerate(((before, stride), (after, 1))):
            steps += [
                nn.ReLU(inplace=first > 0),
                nn.Conv2d(channels, channels, size, step, size // 2, groups=channels, bias=False),
                nn.Conv2d(channels, after, 1, bias=False),
                nn.BatchNorm2d(after),
            ]
        self.steps = nn.Sequential(*steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps(x)


def _squeeze(before: int, after: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


def _average(stride: int = 1) -> nn.Module:
    return nn.AvgPool2d(3, stride, 1, count_include_pad=False)


class Normal(nn.Module):
    """A cell that keeps the picture's size; its output has six times ``width`` channels."""

    def __init__(self, last: int, before: int, width: int, shrinks: bool) -> None:
        super().__init__()
        self.this = _squeeze(last, width)
        self.former = _squeeze(before, width, 2 if shrinks else 1)
        self.left1 = Separable(width, width, 5)
        self.right1 = Separable(width, width, 3)
        self.left2 = Separable(width, width, 5)
        self.right2 = Separable(width, width, 3)
        self.average = _average()
        self.left5 = Separable(width, width, 3)

    def forward(self, x: torch.Tensor, former: torch.Tensor) -> torch.Tensor:
        h, p = self.this(x), self.former(former)
        made = [
            p,
            self.left1(h) + self.right1(p),
            self.left2(p) + self.right2(p),
            self.average(h) + p,
            self.average(p) + self.average(p),
            self.left5(h) + h,
        ]
        return torch.cat(made, 1)


class Reduction(nn.Module):
    """A cell that halves the picture; its output has four times ``width`` channels."""

    def __init__(self, last: int, before: int, width: int, shrinks: bool) -> None:
        super().__init__()
        self.this = _squeeze(last, width)
        self.former = _squeeze(before, width, 2 if shrinks else 1)
        self.left1 = Separable(width, width, 5, 2)
        self.right1 = Separable(width, width, 7, 2)
        self.maximum = nn.MaxPool2d(3, 2, 1)
        self.right2 = Separable(width, width, 7, 2)
        self.average2 = _average(2)
        self.right3 = Separable(width, width, 5, 2)
        self.average = _average()
        self.left5 = Separable(width, width, 3)

    def forward(self, x: torch.Tensor, former: torch.Tensor) -> torch.Tensor:
        h, p = self.this(x), self.former(former)
        first = self.left1(h) + self.right1(p)
        second = self.maximum(h) + self.right2(p)
        third = self.average2(h) + self.right3(p)
        made = [second, third, self.average(first) + second, self.left5(first) + self.maximum(h)]
        return torch.cat(made, 1)


class NasNet(nn.Module):
    def __init__(self, repeats: int, width: int, stem: int, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, stem, 3, 2, bias=False), nn.BatchNorm2d(stem))
        cells = []
        state = (stem, stem, False)

        def add(kind: type, size: int) -> None:
            nonlocal state
            last, before, shrinks = state
            cells.append(kind(last, before, size, shrinks))
            outputs = (6 if kind is Normal else 4) * size
            state = (outputs, last, kind is Reduction)

        add(Reduction, width // 4)
        add(Reduction, width // 2)
        for block in range(3):
            if block:
                add(Reduction, width << block)
            for _ in range(repeats):
                add(Normal, width << block)
        self.cells = nn.ModuleList(cells)
        self.end = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(state[0], classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: Tuple[torch.Tensor, torch.Tensor] = (self.conv(x),) * 2
        for cell in self.cells:
            states = (cell(*states), states[0])
        return self.end(states[0])


def nasnet(repeats: int) -> NasNet:
    """NASNet-A with the widths of its largest, 6@4032, and ``repeats`` normal cells in each of its three blocks."""
    return NasNet(repeats, 168, 96)
