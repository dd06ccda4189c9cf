"""VGG (Simonyan and Zisserman, ICLR 2015), configurations D and E."""

from __future__ import annotations

from typing import List

from torch import nn


def vgg(convolutions: List[int], classes: int = 1000) -> nn.Module:
    """``convolutions`` in each of the five blocks: 2, 2, 3, 3, 3 for VGG-16."""
    layers: List[nn.Module] = []
    before = 3
    for count, after in zip(convolutions, (64, 128, 256, 512, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
            before = after
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for size in (512 * 7 * 7, 4096):
        layers += [nn.Linear(size, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, classes))


def vgg16() -> nn.Module:
    return vgg([2, 2, 3, 3, 3])


def vgg19() -> nn.Module:
    return vgg([2, 2, 4, 4, 4])
