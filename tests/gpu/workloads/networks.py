"""The networks of Table III: torchvision's where it is installed, else ours of the same shape."""

from __future__ import annotations

import contextlib
from typing import List

import torch
from torch import nn

# Here, before whoever imports this says that it is ready. One made for another torch fails with a RuntimeError.
try:
    import torchvision
except (ImportError, RuntimeError):
    torchvision = None

# Theirs of the papers' depth; YOLOv3's backbone is in none of torchvision's.
_THEIRS = {"resnet": "resnet152", "resnext": "resnext101_32x8d", "densenet": "densenet201"}


def make(name: str, device: str) -> nn.Module:
    """With random weights, drawn on the device where torch can do that."""
    drawn = torch.device(device) if hasattr(torch, "set_default_device") else contextlib.nullcontext()
    with drawn:
        return _made(name).to(device)


def _made(name: str) -> nn.Module:
    if torchvision is not None and name in _THEIRS:
        network: nn.Module = getattr(torchvision.models, _THEIRS[name])(weights=None)
        return network
    if name == "densenet":
        return _densenet([6, 12, 48, 32], 32)
    if name == "yolo":
        return _darknet([1, 2, 8, 8, 4])
    return _resnet([3, 8, 36, 3], 1, 64) if name == "resnet" else _resnet([3, 4, 23, 3], 32, 8)


def _convolution(into: int, out: int, size: int, stride: int = 1, groups: int = 1) -> List[nn.Module]:
    layer = nn.Conv2d(into, out, size, stride, size // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(out), nn.ReLU(inplace=True)]


class _Residual(nn.Module):
    def __init__(self, inner: nn.Module, past: nn.Module) -> None:
        super().__init__()
        self.inner, self.past = inner, past

    def forward(self, entry: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(entry) + self.past(entry))


class _Dense(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, entry: torch.Tensor) -> torch.Tensor:
        return torch.cat([entry, self.inner(entry)], 1)


def _end(channels: int) -> List[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]


def _resnet(blocks: List[int], groups: int, width: int) -> nn.Module:
    layers, channels = [*_convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(blocks):
        inner, out = groups * width << stage, 256 << stage
        for place in range(count):
            stride = 2 if stage and not place else 1
            body = [*_convolution(channels, inner, 1), *_convolution(inner, inner, 3, stride, groups)]
            body += _convolution(inner, out, 1)[:2]
            past = nn.Identity() if channels == out else nn.Sequential(*_convolution(channels, out, 1, stride)[:2])
            layers.append(_Residual(nn.Sequential(*body), past))
            channels = out
    return nn.Sequential(*layers, *_end(channels))


def _densenet(blocks: List[int], growth: int) -> nn.Module:
    layers, channels = [*_convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(blocks):
        for _ in range(count):
            layers.append(_Dense(nn.Sequential(*_convolution(channels, 4 * growth, 1), *_convolution(4 * growth, growth, 3))))
            channels += growth
        if stage + 1 < len(blocks):
            layers += [*_convolution(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, *_end(channels))


def _darknet(blocks: List[int]) -> nn.Module:
    layers, channels = _convolution(3, 32, 3), 32
    for count in blocks:
        layers += _convolution(channels, 2 * channels, 3, 2)
        channels *= 2
        for _ in range(count):
            body = [*_convolution(channels, channels // 2, 1), *_convolution(channels // 2, channels, 3)[:2]]
            layers.append(_Residual(nn.Sequential(*body), nn.Identity()))
    return nn.Sequential(*layers, *_end(channels))
