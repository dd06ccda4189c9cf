"""A fully convolutional network for segmentation (Long, Shelhamer and Darrell, CVPR 2015) on ResNet-50 or ResNet-101.

The last two stages of ResNet are dilated instead of strided (Yu, Koltun and Funkhouser, CVPR 2017), so that its result
is an eighth of the image's height and width, from which one bilinear interpolation gives the scores of each pixel.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rtswap.graph.models import resnet


def _head(channels: int, classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, channels // 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels // 4),
        nn.ReLU(inplace=True),
        nn.Dropout(0.1),
        nn.Conv2d(channels // 4, classes, 1),
    )


def _enlarged(scores: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    return nn.functional.interpolate(scores, size=image.shape[-2:], mode="bilinear", align_corners=False)


class Fcn(nn.Module):
    """Scores of each class for each pixel; ``blocks`` are the numbers of blocks in the four stages of ResNet."""

    def __init__(self, blocks: list[int], classes: int = 21) -> None:
        super().__init__()
        channels = 64
        self.stem = resnet.stem(channels)
        stages = []
        for stage, (count, stride, dilation) in enumerate(zip(blocks, (1, 2, 1, 1), (1, 1, 2, 4))):
            width, out_channels = 64 << stage, 256 << stage
            for block in range(count):
                # A dilated stage begins with the dilation of the stage before it, whose stride it takes the place of.
                spread = max(1, dilation // 2) if block == 0 else dilation
                stages.append(resnet.Bottleneck(channels, width, out_channels, stride if block == 0 else 1, spread))
                channels = out_channels
        self.stages = nn.Sequential(*stages)
        self.head = _head(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _enlarged(self.head(self.stages(self.stem(x))), x)


class AuxiliaryFcn(Fcn):
    """A network that also scores the pixels from its third stage, as the published weights do."""

    def __init__(self, blocks: list[int], classes: int = 21) -> None:
        super().__init__(blocks, classes)
        self.third = sum(blocks[:3])
        self.auxiliary = _head(1024, classes)

    def forward(self, x: torch.Tensor) -> Any:
        third = self.stages[: self.third](self.stem(x))
        last = self.stages[self.third :](third)
        return _enlarged(self.head(last), x), _enlarged(self.auxiliary(third), x)


def fcn_resnet50() -> nn.Module:
    """On ResNet-50, with the 21 classes of PASCAL VOC."""
    return Fcn([3, 4, 6, 3])


def fcn_resnet101() -> nn.Module:
    """On ResNet-101, with the 21 classes of PASCAL VOC and auxiliary scores."""
    return AuxiliaryFcn([3, 4, 23, 3])
