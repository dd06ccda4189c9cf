"""YOLOv3 (Redmon and Farhadi, arXiv 1804.02767): Darknet-53, and a head at each of three scales."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Boxes that each cell of a head predicts; each has four coordinates and whether it is an object, before the classes.
_ANCHORS = 3
_BOX = 5


def _conv(in_channels: int, out_channels: int, size: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.LeakyReLU(0.1, inplace=True),
    )


class Residual(nn.Module):
    """Darknet's block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(channels, channels // 2, 1), _conv(channels // 2, channels, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Head(nn.Module):
    """``neck``'s result goes on to the next scale, and ``end`` predicts from it."""

    def __init__(self, in_channels: int, channels: int, predictions: int) -> None:
        super().__init__()
        self.neck = nn.Sequential(
            _conv(in_channels, channels, 1),
            _conv(channels, 2 * channels, 3),
            _conv(2 * channels, channels, 1),
            _conv(channels, 2 * channels, 3),
            _conv(2 * channels, channels, 1),
        )
        self.end = nn.Sequential(_conv(channels, 2 * channels, 3), nn.Conv2d(2 * channels, predictions, 1))


class Yolo(nn.Module):
    """Predictions at a 32nd, a 16th and an eighth of the image's height and width."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = _conv(3, 32, 3)
        stages = []
        for stage, count in enumerate((1, 2, 8, 8, 4)):
            channels = 64 << stage
            blocks = [Residual(channels) for _ in range(count)]
            stages.append(nn.Sequential(_conv(channels // 2, channels, 3, 2), *blocks))
        self.stages = nn.ModuleList(stages)
        predictions = _ANCHORS * (_BOX + classes)
        heads = [(1024, 512), (256 + 512, 256), (128 + 256, 128)]
        self.heads = nn.ModuleList([Head(*channels, predictions) for channels in heads])
        self.turns = nn.ModuleList([_conv(512, 256, 1), _conv(256, 128, 1)])
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.stem(x)
        scales = []
        for stage in self.stages:
            x = stage(x)
            scales.append(x)
        predictions = []
        for turn, head in enumerate(self.heads):
            if turn:
                x = torch.cat([self.up(self.turns[turn - 1](x)), scales[-1 - turn]], 1)
            x = head.neck(x)
            predictions.append(head.end(x))
        return predictions


def yolo_loss(predictions: list[torch.Tensor], targets: Any) -> torch.Tensor:
    """Squared errors of the boxes' coordinates, and the cross-entropy of whether there is an object and of its classes.

    ``targets`` has for each scale (what to predict, its weights), each of the shape (batch, anchors, height, width, box
    and classes): the weight is 0 where a cell does not answer for an object.
    """
    total = torch.zeros((), device=predictions[0].device)
    for prediction, (wanted, weight) in zip(predictions, targets):
        batch, _, height, width = prediction.shape
        found = prediction.view(batch, _ANCHORS, -1, height, width).permute(0, 1, 3, 4, 2)
        boxes = (found[..., : _BOX - 1] - wanted[..., : _BOX - 1]) ** 2 * weight[..., : _BOX - 1]
        classes = nn.functional.binary_cross_entropy_with_logits(
            found[..., _BOX - 1 :], wanted[..., _BOX - 1 :], weight[..., _BOX - 1 :], reduction="sum"
        )
        total = total + boxes.sum() + classes
    return total


def yolo_targets(batch: int, size: int, classes: int = 80) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Targets for images of ``size`` × ``size`` pixels, as :func:`yolo_loss` reads them, without values."""
    shapes = [(batch, _ANCHORS, size // step, size // step, _BOX + classes) for step in (32, 16, 8)]
    return [(torch.empty(shape), torch.empty(shape)) for shape in shapes]
