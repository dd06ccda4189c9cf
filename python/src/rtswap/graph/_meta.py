"""Models without memory: how to make them, and the kernels that the ``meta`` device of PyTorch 1.13 lacks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
aten = torch.ops.aten


class _OnMeta(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        # torch.tensor fills host memory itself and dispatches only this.
        if func is aten.lift_fresh.default:
            return args[0].to(META)
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs["device"] = META
        return func(*args, **kwargs)


def on_meta() -> AbstractContextManager[Any]:
    """A context manager: tensors and layers made inside are on the ``meta`` device, whatever device they ask for.

    PyTorch 2 has ``with torch.device("meta")`` for this, and PyTorch 1.13 has nothing.
    """
    return _OnMeta()


def _convolution_backward(*args: Any) -> tuple[torch.Tensor | None, ...]:
    activation, weight, is_transposed, groups, mask = args[1], args[2], args[7], args[9], args[10]
    channels = weight.shape[1] * groups if is_transposed else weight.shape[0]
    gradients = (torch.empty_like(activation), torch.empty_like(weight), weight.new_empty([channels]))
    return tuple(gradient if is_wanted else None for gradient, is_wanted in zip(gradients, mask))


def _nll_loss2d_forward(scores: torch.Tensor, target: torch.Tensor, weight: Any, reduction: int, ignored: int) -> Any:
    # A reduction of 0 is none: a loss for each pixel.
    return scores.new_empty([] if reduction else target.shape), scores.new_empty([])


def _nll_loss2d_backward(gradient: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(scores)


# By operator. Their results have shapes and no values, as those of all meta kernels.
MISSING_KERNELS: dict[Any, Callable[..., Any]] = {
    aten.convolution_backward.default: _convolution_backward,
    aten.nll_loss2d_forward.default: _nll_loss2d_forward,
    aten.nll_loss2d_backward.default: _nll_loss2d_backward,
}
