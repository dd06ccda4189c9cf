"""Inception-v4 (Szegedy et al., AAAI 2017, figures 3 to 9), and wide Inception, which has more channels."""

from __future__ import annotations

import torch
from torch import nn


class Conv(nn.Sequential):
    """A convolution, batch normalisation and ReLU; ``valid`` ones have no padding, all others keep height and width if
    the stride is 1.
    """

    def __init__(
        self, in_channels: int, out_channels: int, size: int | tuple[int, int], stride: int = 1, valid: bool = False
    ) -> None:
        sizes = (size, size) if isinstance(size, int) else size
        padding = (0, 0) if valid else (sizes[0] // 2, sizes[1] // 2)
        super().__init__(
            nn.Conv2d(in_channels, out_channels, sizes, stride, padding, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class Branches(nn.Module):
    """Concatenates the results of several branches of one input."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Fork(nn.Module):
    """A path whose result several ends share; concatenates the results of the ends."""

    def __init__(self, path: nn.Module, *ends: nn.Module) -> None:
        super().__init__()
        self.path = path
        self.ends = Branches(*ends)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ends(self.path(x))


# In all that follows w is how many times as wide the network is.


def _stem(w: int) -> nn.Sequential:
    return nn.Sequential(
        Conv(3, 32 * w, 3, 2, True),
        Conv(32 * w, 32 * w, 3, 1, True),
        Conv(32 * w, 64 * w, 3),
        Branches(nn.MaxPool2d(3, 2), Conv(64 * w, 96 * w, 3, 2, True)),
        Branches(
            nn.Sequential(Conv(160 * w, 64 * w, 1), Conv(64 * w, 96 * w, 3, 1, True)),
            nn.Sequential(
                Conv(160 * w, 64 * w, 1),
                Conv(64 * w, 64 * w, (7, 1)),
                Conv(64 * w, 64 * w, (1, 7)),
                Conv(64 * w, 96 * w, 3, 1, True),
            ),
        ),
        Branches(Conv(192 * w, 192 * w, 3, 2, True), nn.MaxPool2d(3, 2)),
    )


def average() -> nn.Module:
    """An average over 3×3 that keeps height and width."""
    return nn.AvgPool2d(3, 1, 1, count_include_pad=False)


def _a(w: int) -> nn.Module:
    n = 384 * w
    return Branches(
        nn.Sequential(average(), Conv(n, 96 * w, 1)),
        Conv(n, 96 * w, 1),
        nn.Sequential(Conv(n, 64 * w, 1), Conv(64 * w, 96 * w, 3)),
        nn.Sequential(Conv(n, 64 * w, 1), Conv(64 * w, 96 * w, 3), Conv(96 * w, 96 * w, 3)),
    )


def _reduction_a(w: int) -> nn.Module:
    n = 384 * w
    return Branches(
        nn.MaxPool2d(3, 2),
        Conv(n, 384 * w, 3, 2, True),
        nn.Sequential(Conv(n, 192 * w, 1), Conv(192 * w, 224 * w, 3), Conv(224 * w, 256 * w, 3, 2, True)),
    )


def _b(w: int) -> nn.Module:
    n = 1024 * w
    return Branches(
        nn.Sequential(average(), Conv(n, 128 * w, 1)),
        Conv(n, 384 * w, 1),
        nn.Sequential(Conv(n, 192 * w, 1), Conv(192 * w, 224 * w, (1, 7)), Conv(224 * w, 256 * w, (7, 1))),
        nn.Sequential(
            Conv(n, 192 * w, 1),
            Conv(192 * w, 192 * w, (1, 7)),
            Conv(192 * w, 224 * w, (7, 1)),
            Conv(224 * w, 224 * w, (1, 7)),
            Conv(224 * w, 256 * w, (7, 1)),
        ),
    )


def _reduction_b(w: int) -> nn.Module:
    n = 1024 * w
    return Branches(
        nn.MaxPool2d(3, 2),
        nn.Sequential(Conv(n, 192 * w, 1), Conv(192 * w, 192 * w, 3, 2, True)),
        nn.Sequential(
            Conv(n, 256 * w, 1),
            Conv(256 * w, 256 * w, (1, 7)),
            Conv(256 * w, 320 * w, (7, 1)),
            Conv(320 * w, 320 * w, 3, 2, True),
        ),
    )


def _c(w: int) -> nn.Module:
    n = 1536 * w
    return Branches(
        nn.Sequential(average(), Conv(n, 256 * w, 1)),
        Conv(n, 256 * w, 1),
        Fork(Conv(n, 384 * w, 1), Conv(384 * w, 256 * w, (1, 3)), Conv(384 * w, 256 * w, (3, 1))),
        Fork(
            nn.Sequential(Conv(n, 384 * w, 1), Conv(384 * w, 448 * w, (1, 3)), Conv(448 * w, 512 * w, (3, 1))),
            Conv(512 * w, 256 * w, (3, 1)),
            Conv(512 * w, 256 * w, (1, 3)),
        ),
    )


def inception_v4(wide: int = 1, classes: int = 1000) -> nn.Module:
    """Inception-v4 with ``wide`` times as many channels after each convolution."""
    return nn.Sequential(
        _stem(wide),
        *[_a(wide) for _ in range(4)],
        _reduction_a(wide),
        *[_b(wide) for _ in range(7)],
        _reduction_b(wide),
        *[_c(wide) for _ in range(3)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1536 * wide, classes),
    )
