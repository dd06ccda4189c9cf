"""ResNet (He et al., CVPR 2016), and wide ones, whose convolutions have more channels (Zagoruyko and Komodakis, BMVC 2016)."""

from __future__ import annotations

from typing import List

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, before: int, width: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, blocks: List[int], wide: int = 1, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64 * wide, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64 * wide),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        before = 64 * wide
        stages = []
        for stage, count in enumerate(blocks):
            width, after = 64 * wide << stage, 256 << stage
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Bottleneck(before, width, after, stride))
                before = after
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.stages(self.stem(x)))
        return self.head(torch.flatten(y, 1))


def resnet50() -> ResNet:
    return ResNet([3, 4, 6, 3])


def resnet101() -> ResNet:
    return ResNet([3, 4, 23, 3])


def resnet152(wide: int = 1) -> ResNet:
    return ResNet([3, 8, 36, 3], wide)
