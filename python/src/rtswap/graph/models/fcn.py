"""FCN-8s (Long, Shelhamer and Darrell, CVPR 2015) on VGG-16."""

from __future__ import annotations

import torch
from torch import nn


def _block(before: int, after: int, count: int) -> nn.Module:
    layers = []
    for _ in range(count):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
        before = after
    return nn.Sequential(*layers, nn.MaxPool2d(2))


class Fcn(nn.Module):
    def __init__(self, classes: int = 21) -> None:
        super().__init__()
        self.third = nn.Sequential(_block(3, 64, 2), _block(64, 128, 2), _block(128, 256, 3))
        self.fourth = _block(256, 512, 3)
        self.fifth = _block(512, 512, 3)
        self.score = nn.Sequential(
            nn.Conv2d(512, 4096, 7, padding=3),
            nn.ReLU(inplace=True),
            nn.Dropout2d(),
            nn.Conv2d(4096, 4096, 1),
            nn.ReLU(inplace=True),
            nn.Dropout2d(),
            nn.Conv2d(4096, classes, 1),
        )
        self.score4 = nn.Conv2d(512, classes, 1)
        self.score3 = nn.Conv2d(256, classes, 1)
        self.twice = nn.ConvTranspose2d(classes, classes, 4, 2, 1, bias=False)
        self.twice_again = nn.ConvTranspose2d(classes, classes, 4, 2, 1, bias=False)
        self.eightfold = nn.ConvTranspose2d(classes, classes, 16, 8, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        third = self.third(x)
        fourth = self.fourth(third)
        y = self.twice(self.score(self.fifth(fourth))) + self.score4(fourth)
        y = self.twice_again(y) + self.score3(third)
        return self.eightfold(y)
