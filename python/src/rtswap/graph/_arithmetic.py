"""How much a kernel computes, and with which kind of arithmetic."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

aten = torch.ops.aten


def flops(func: Any, args: tuple[Any, ...], made: list[torch.Tensor]) -> int:
    """The floating-point operations of a kernel, a multiply-add counted as two.

    Convolutions and matrix products are exact; any other kernel counts one operation for each element that it makes.
    """
    if func is aten.convolution.default:
        return _convolution(made[0], args[1])
    if func is aten.convolution_backward.default:
        gradient, weight, mask = args[0], args[2], args[10]
        # One product makes the gradient of the activation, another that of the weight.
        return int(sum(mask[:2])) * _convolution(gradient, weight)
    if func in (aten.mm.default, aten.bmm.default):
        return _product(args[0], args[1])
    if func in (aten.addmm.default, aten.baddbmm.default):
        return _product(args[1], args[2])
    return sum(int(tensor.numel()) for tensor in made)


def arithmetic(func: Any, args: tuple[Any, ...]) -> str:
    """``"depthwise"`` for a convolution of each input channel by itself, forward or backward; empty for all others.

    Such a convolution reuses little of what it reads, so it is far slower than its operations say.
    """
    if func is aten.convolution.default:
        activation, groups = args[0], args[8]
    elif func is aten.convolution_backward.default:
        activation, groups = args[1], args[9]
    else:
        return ""
    return "depthwise" if 1 < groups == activation.shape[1] else ""


def _convolution(result: torch.Tensor, weight: torch.Tensor) -> int:
    # A weight's shape has the input channels of one group only.
    return 2 * int(result.numel() * prod(weight.shape[1:]))


def _product(left: torch.Tensor, right: torch.Tensor) -> int:
    return 2 * int(left.numel() * right.shape[-1])
