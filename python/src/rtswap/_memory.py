"""Where the GPU memory of an object is, whichever library made it. None of them is imported."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class Region(NamedTuple):
    """Bytes on a GPU, and what keeps them from being given to others as long as it lives."""

    address: int
    size: int
    holder: object


def region_of(thing: Any) -> Region | None:
    """The GPU memory of a torch tensor, of anything with `__cuda_array_interface__`, of a JAX array on one GPU, or of
    what has `data_ptr` and `nbytes`. None for all else: what is elsewhere, is empty, or has gaps that others may fill.
    """
    if isinstance(thing, type):
        return None
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        return _tensor(torch, thing)
    # JAX's arrays have the interface too, where one GPU holds them whole; elsewhere it raises.
    interface = _quietly(lambda: thing.__cuda_array_interface__)
    if isinstance(interface, dict):
        return _array(thing, interface)
    if callable(getattr(thing, "unsafe_buffer_pointer", None)):
        return _jax(thing)
    if callable(getattr(thing, "data_ptr", None)) and hasattr(thing, "nbytes"):
        return _of(thing.data_ptr(), thing.nbytes, None)
    return None


def _tensor(torch: Any, tensor: Any) -> Region | None:
    # Subclasses that wrap other tensors have no memory of their own, sparse ones no strides.
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return None
    address = _quietly(tensor.data_ptr)
    size = tensor.numel() * tensor.element_size()
    if not address or not is_dense(tensor.shape, tensor.stride()):
        return None
    # Since torch 2.0.
    storage = _quietly(tensor.untyped_storage) if hasattr(tensor, "untyped_storage") else None
    if storage is not None and address + size == storage.data_ptr() + storage.nbytes():
        # What the allocator adds to a storage is nobody else's: so neighbours leave no gaps.
        rounding = _granularity(torch)
        size = math.ceil(size / rounding) * rounding
    # It shares the storage, and keeps it when the tensor gets another.
    return _of(address, size, tensor.detach())


def _granularity(torch: Any) -> int:
    backend = _quietly(torch.cuda.get_allocator_backend)
    return 512 if backend in ("native", "cudaMallocAsync") else 1


def _array(thing: Any, interface: dict[str, Any]) -> Region | None:
    item = int(re.findall(r"\d+", interface["typestr"])[0])
    shape, strides = interface["shape"], interface.get("strides")
    if strides is not None and not is_dense(shape, [stride / item for stride in strides]):
        return None
    # CuPy's memory goes back to its pool with this object.
    return _of(interface["data"][0], math.prod(shape) * item, getattr(thing, "data", None))


def _jax(array: Any) -> Region | None:
    # Raises for arrays that were deleted, or are on several devices.
    platform = _quietly(lambda: next(iter(array.devices())).platform)
    address = _quietly(array.unsafe_buffer_pointer)
    if platform not in ("cuda", "gpu") or not address:
        return None
    return _of(address, array.nbytes, None)


def _of(address: int, size: int, holder: object) -> Region | None:
    return Region(int(address), int(size), holder) if address and size > 0 else None


def is_dense(shape: Sequence[int], strides: Sequence[float]) -> bool:
    """Whether the elements, in whatever order of dimensions, lie side by side. Strides are in elements."""
    expected = 1
    for stride, length in sorted(zip(strides, shape)):
        if length != 1:
            if stride != expected:
                return False
            expected *= length
    return True


def _quietly(call: Any) -> Any:
    """What it gives, None where the object's library says that there is nothing."""
    try:
        return call()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
