"""A fully convolutional network for segmentation (Long, Shelhamer and Darrell, CVPR 2015) on ResNet-50.

The last two stages of ResNet are dilated instead of strided (Yu, Koltun and Funkhouser, CVPR 2017), so that its result
is an eighth of the image's height and width, from which one bilinear interpolation gives the scores of each pixel.
"""

from __future__ import annotations

import torch
from torch import nn

from rtswap.graph.models import resnet


class Fcn(nn.Module):
    """Scores of each class for each pixel."""

    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        channels = 64
        self.stem = resnet.stem(channels)
        stages = []
        for stage, (count, stride, dilation) in enumerate([(3, 1, 1), (4, 2, 1), (6, 1, 2), (3, 1, 4)]):
            width, out_channels = 64 << stage, 256 << stage
            for block in range(count):
                # A dilated stage begins with the dilation of the stage before it, whose stride it takes the place of.
                spread = max(1, dilation // 2) if block == 0 else dilation
                stages.append(resnet.Bottleneck(channels, width, out_channels, stride if block == 0 else 1, spread))
                channels = out_channels
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            nn.Conv2d(channels, channels // 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels // 4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
            nn.Conv2d(channels // 4, classes, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.head(self.stages(self.stem(x)))
        return nn.functional.interpolate(scores, size=x.shape[-2:], mode="bilinear", align_corners=False)


def fcn_resnet50() -> nn.Module:
    """On ResNet-50, with the 21 classes of PASCAL VOC."""
    return Fcn()
