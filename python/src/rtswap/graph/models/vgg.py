"""VGG (Simonyan and Zisserman, ICLR 2015), configurations D and E."""

from __future__ import annotations

from torch import nn


def vgg16() -> nn.Module:
    """Configuration D, with 13 convolutions."""
    return _vgg([2, 2, 3, 3, 3])


def vgg19() -> nn.Module:
    """Configuration E, with 16 convolutions."""
    return _vgg([2, 2, 4, 4, 4])


def _vgg(convolutions: list[int], classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for count, out_channels in zip(convolutions, (64, 128, 256, 512, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, out_channels, 3, padding=1), nn.ReLU(inplace=True)]
            channels = out_channels
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for features in (512 * 7 * 7, 4096):
        layers += [nn.Linear(features, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, classes))
