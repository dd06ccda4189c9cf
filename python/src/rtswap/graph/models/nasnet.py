"""NASNet-A (Zoph et al., CVPR 2018, figure 4 and appendix), with any number of normal cells."""

from __future__ import annotations

import torch
from torch import nn


class Separable(nn.Module):
    """A depthwise convolution and a pointwise one, applied twice as everywhere in NASNet."""

    def __init__(self, in_channels: int, out_channels: int, size: int, stride: int = 1) -> None:
        super().__init__()
        steps: list[nn.Module] = []
        for channels, step in ((in_channels, stride), (out_channels, 1)):
            steps += [
                # The input of the first is used elsewhere too.
                nn.ReLU(inplace=bool(steps)),
                nn.Conv2d(channels, channels, size, step, size // 2, groups=channels, bias=False),
                nn.Conv2d(channels, out_channels, 1, bias=False),
                nn.BatchNorm2d(out_channels),
            ]
        self.steps = nn.Sequential(*steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.steps(x)


def _squeeze(in_channels: int, out_channels: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
    return nn.Sequential(nn.ReLU(), conv, nn.BatchNorm2d(out_channels))


def _average(stride: int = 1) -> nn.Module:
    return nn.AvgPool2d(3, stride, 1, count_include_pad=False)


class Normal(nn.Module):
    """A cell that keeps height and width, and gives six times ``width`` channels.

    Its inputs are the outputs of the last cell (``last`` channels) and of the one before (``former`` channels), which
    is twice as high and wide if ``shrinks``.
    """

    def __init__(self, last: int, former: int, width: int, shrinks: bool) -> None:
        super().__init__()
        self.this = _squeeze(last, width)
        self.former = _squeeze(former, width, 2 if shrinks else 1)
        self.left1 = Separable(width, width, 5)
        self.right1 = Separable(width, width, 3)
        self.left2 = Separable(width, width, 5)
        self.right2 = Separable(width, width, 3)
        self.average = _average()
        self.left5 = Separable(width, width, 3)

    def forward(self, x: torch.Tensor, former: torch.Tensor) -> torch.Tensor:
        h, p = self.this(x), self.former(former)
        branches = [
            p,
            self.left1(h) + self.right1(p),
            self.left2(p) + self.right2(p),
            self.average(h) + p,
            self.average(p) + self.average(p),
            self.left5(h) + h,
        ]
        return torch.cat(branches, 1)


class Reduction(nn.Module):
    """A cell that halves height and width, and gives four times ``width`` channels; otherwise as :class:`Normal`."""

    def __init__(self, last: int, former: int, width: int, shrinks: bool) -> None:
        super().__init__()
        self.this = _squeeze(last, width)
        self.former = _squeeze(former, width, 2 if shrinks else 1)
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
        branches = [second, third, self.average(first) + second, self.left5(first) + self.maximum(h)]
        return torch.cat(branches, 1)


class NasNet(nn.Module):
    """A classifier of images: three blocks of ``repeats`` normal cells, with a reduction cell between two of them."""

    def __init__(self, repeats: int, width: int, stem: int, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, stem, 3, 2, bias=False), nn.BatchNorm2d(stem))
        plan: list[tuple[type[Normal] | type[Reduction], int]] = [(Reduction, width // 4), (Reduction, width // 2)]
        for block in range(3):
            if block:
                plan.append((Reduction, width << block))
            plan += [(Normal, width << block)] * repeats
        cells = []
        last, former, shrinks = stem, stem, False
        for kind, channels in plan:
            cells.append(kind(last, former, channels, shrinks))
            last, former, shrinks = (6 if kind is Normal else 4) * channels, last, kind is Reduction
        self.cells = nn.ModuleList(cells)
        self.end = nn.Sequential(
            nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(last, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = former = self.conv(x)
        for cell in self.cells:
            last, former = cell(last, former), last
        return self.end(last)


def nasnet(repeats: int) -> nn.Module:
    """NASNet-A with the widths of its largest, 6@4032, and ``repeats`` normal cells in each of its three blocks."""
    return NasNet(repeats, width=168, stem=96)
