"""ResNet (He et al., CVPR 2016), and wide ResNet, which has more channels inside its blocks (Zagoruyko and Komodakis,
BMVC 2016).
"""

from __future__ import annotations

import torch
from torch import nn


class Bottleneck(nn.Module):
    """Convolutions of 1×1, 3×3 and 1×1, added to the block's input. ``dilation`` spreads the 3×3 convolution."""

    def __init__(self, in_channels: int, width: int, out_channels: int, stride: int, dilation: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            projection = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(out_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        y += self.shortcut(x)
        return self.relu(y)


def stem(channels: int) -> nn.Module:
    """What all ResNets begin with: a quarter of the image's height and width, with so many channels."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 7, 2, 3, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    )


class ResNet(nn.Module):
    """A classifier of images; ``blocks`` are the numbers of blocks in its four stages."""

    def __init__(self, blocks: list[int], wide: int = 1, classes: int = 1000) -> None:
        super().__init__()
        channels = 64 * wide
        self.stem = stem(channels)
        stages = []
        for stage, count in enumerate(blocks):
            width, out_channels = 64 * wide << stage, 256 << stage
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(Bottleneck(channels, width, out_channels, stride))
                channels = out_channels
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.stages(self.stem(x)))
        return self.head(torch.flatten(y, 1))


def resnet50() -> nn.Module:
    """ResNet-50."""
    return ResNet([3, 4, 6, 3])


def resnet101() -> nn.Module:
    """ResNet-101."""
    return ResNet([3, 4, 23, 3])


def resnet152(wide: int = 1) -> nn.Module:
    """ResNet-152, with ``wide`` times as many channels in the stem and inside each block."""
    return ResNet([3, 8, 36, 3], wide)
