"""Inception-v3 (Szegedy et al., CVPR 2016, figures 5 to 7 and 10), without its auxiliary classifier."""

from __future__ import annotations

from torch import nn

from rtswap.graph.models.inception import Branches, Conv, Fork, average


def _stem() -> nn.Module:
    return nn.Sequential(
        Conv(3, 32, 3, 2, True),
        Conv(32, 32, 3, 1, True),
        Conv(32, 64, 3),
        nn.MaxPool2d(3, 2),
        Conv(64, 80, 1),
        Conv(80, 192, 3, 1, True),
        nn.MaxPool2d(3, 2),
    )


def _a(n: int, pooled: int) -> nn.Module:
    return Branches(
        Conv(n, 64, 1),
        nn.Sequential(Conv(n, 48, 1), Conv(48, 64, 5)),
        nn.Sequential(Conv(n, 64, 1), Conv(64, 96, 3), Conv(96, 96, 3)),
        nn.Sequential(average(), Conv(n, pooled, 1)),
    )


def _reduction_a() -> nn.Module:
    return Branches(
        Conv(288, 384, 3, 2, True),
        nn.Sequential(Conv(288, 64, 1), Conv(64, 96, 3), Conv(96, 96, 3, 2, True)),
        nn.MaxPool2d(3, 2),
    )


def _b(m: int) -> nn.Module:
    return Branches(
        Conv(768, 192, 1),
        nn.Sequential(Conv(768, m, 1), Conv(m, m, (1, 7)), Conv(m, 192, (7, 1))),
        nn.Sequential(
            Conv(768, m, 1),
            Conv(m, m, (7, 1)),
            Conv(m, m, (1, 7)),
            Conv(m, m, (7, 1)),
            Conv(m, 192, (1, 7)),
        ),
        nn.Sequential(average(), Conv(768, 192, 1)),
    )


def _reduction_b() -> nn.Module:
    return Branches(
        nn.Sequential(Conv(768, 192, 1), Conv(192, 320, 3, 2, True)),
        nn.Sequential(
            Conv(768, 192, 1), Conv(192, 192, (1, 7)), Conv(192, 192, (7, 1)), Conv(192, 192, 3, 2, True)
        ),
        nn.MaxPool2d(3, 2),
    )


def _c(n: int) -> nn.Module:
    return Branches(
        Conv(n, 320, 1),
        Fork(Conv(n, 384, 1), Conv(384, 384, (1, 3)), Conv(384, 384, (3, 1))),
        Fork(
            nn.Sequential(Conv(n, 448, 1), Conv(448, 384, 3)),
            Conv(384, 384, (1, 3)),
            Conv(384, 384, (3, 1)),
        ),
        nn.Sequential(average(), Conv(n, 192, 1)),
    )


def inception_v3(classes: int = 1000) -> nn.Module:
    """Inception-v3."""
    return nn.Sequential(
        _stem(),
        _a(192, 32),
        _a(256, 64),
        _a(288, 64),
        _reduction_a(),
        *[_b(m) for m in (128, 160, 160, 192)],
        _reduction_b(),
        _c(1280),
        _c(2048),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(2048, classes),
    )
