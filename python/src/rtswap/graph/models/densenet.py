"""DenseNet-121 (Huang et al., CVPR 2017)."""

from __future__ import annotations

import torch
from torch import nn


class Dense(nn.Module):
    """Adds ``growth`` channels to those that it is given."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(inplace=True),
            nn.Conv2d(before, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet121(growth: int = 32, classes: int = 1000) -> nn.Module:
    size = 2 * growth
    layers = [
        nn.Conv2d(3, size, 7, 2, 3, bias=False),
        nn.BatchNorm2d(size),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            layers += [nn.BatchNorm2d(size), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(size, size // 2, 1, bias=False), nn.AvgPool2d(2)]
            size //= 2
        for _ in range(count):
            layers.append(Dense(size, growth))
            size += growth
    layers += [nn.BatchNorm2d(size), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(size, classes))
