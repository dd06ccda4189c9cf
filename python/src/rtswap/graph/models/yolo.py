"""YOLOv3 (Redmon and Farhadi, arXiv 1804.02767): Darknet-53 and three heads."""

from __future__ import annotations

from typing import List

import torch
from torch import nn


def _conv(before: int, after: int, size: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(after),
        nn.LeakyReLU(0.1, inplace=True),
    )


class Residual(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(size, size // 2, 1), _conv(size // 2, size, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Head(nn.Module):
    """Five convolutions whose result goes on, and two more for what is found at this scale."""

    def __init__(self, before: int, size: int, found: int) -> None:
        super().__init__()
        self.neck = nn.Sequential(
            _conv(before, size, 1),
            _conv(size, 2 * size, 3),
            _conv(2 * size, size, 1),
            _conv(size, 2 * size, 3),
            _conv(2 * size, size, 1),
        )
        self.end = nn.Sequential(_conv(size, 2 * size, 3), nn.Conv2d(2 * size, found, 1))


class Yolo(nn.Module):
    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = _conv(3, 32, 3)
        stages = []
        for stage, count in enumerate((1, 2, 8, 8, 4)):
            size = 64 << stage
            stages.append(nn.Sequential(_conv(size // 2, size, 3, 2), *[Residual(size) for _ in range(count)]))
        self.stages = nn.ModuleList(stages)
        found = 3 * (classes + 5)
        self.heads = nn.ModuleList([Head(1024, 512, found), Head(768, 256, found), Head(384, 128, found)])
        self.turns = nn.ModuleList([_conv(512, 256, 1), _conv(256, 128, 1)])
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        x = self.stem(x)
        scales = []
        for stage in self.stages:
            x = stage(x)
            scales.append(x)
        made = []
        for turn, head in enumerate(self.heads):
            if turn:
                x = torch.cat([self.up(self.turns[turn - 1](x)), scales[-1 - turn]], 1)
            x = head.neck(x)
            made.append(head.end(x))
        return made
