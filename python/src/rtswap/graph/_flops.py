"""Floating-point operations of a kernel, a multiply-add counted as two."""

from __future__ import annotations

from math import prod
from typing import Any, Dict, List, Tuple

import torch

aten = torch.ops.aten


def flops(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], made: List[torch.Tensor]) -> int:
    """Of products exactly; of all others one for each element that they make."""
    if func is aten.convolution.default:
        return _convolution(made[0], args[1])
    if func is aten.convolution_backward.default:
        gradient, _, weight = args[:3]
        # One product for the gradient of the activation, one for that of the weight.
        return sum(args[-1][:2]) * _convolution(gradient, weight)
    if func in (aten.mm.default, aten.bmm.default):
        return _product(args[0], args[1])
    if func in (aten.addmm.default, aten.baddbmm.default):
        return _product(args[1], args[2])
    return sum(tensor.numel() for tensor in made)


def _convolution(result: torch.Tensor, weight: torch.Tensor) -> int:
    # A weight has the channels of one group only.
    return 2 * result.numel() * prod(weight.shape[1:])


def _product(left: torch.Tensor, right: torch.Tensor) -> int:
    return 2 * left.numel() * right.shape[-1]
