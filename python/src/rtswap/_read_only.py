"""Hints about what kernels only read."""

from __future__ import annotations

import weakref
from typing import Callable, TypeVar

from rtswap import _abi
from rtswap._leaves import leaves
from rtswap._memory import region_of

T = TypeVar("T")


def read_only(thing: T) -> T:
    """Says that kernels only read this from now on, and returns it: weights, once they are on the GPU.

    ::

        model = rtswap.read_only(model.cuda().eval())

    What was swapped out once is then not copied out again, which nearly halves what a model costs to swap. Takes a
    ``torch.nn.Module`` (its parameters and buffers), tensors, anything with ``__cuda_array_interface__``
    (CuPy, Numba), JAX arrays, and containers of these. What is not on a GPU is passed over.

    What is said of an object holds until that object is gone: its memory stays taken until then, also if the object
    is given other memory (``module.half()``). So hint when a model has its final type and place. Copies into hinted
    memory, also ``load_state_dict`` from the host, are noticed. A kernel that writes there breaks what was said, and
    what it wrote may be lost: no optimizer steps, no batch norm in training mode, no donated or deleted JAX arrays,
    no storage that is resized under its tensor (FSDP).

    The hint counts for whole chunks of rtswap (usually 2 to 64 MiB), so it is of use for memory of many times that
    size that is allocated together.
    """
    agent = _abi.agent()
    if agent is None:
        _abi.warn_if_lost()
        return thing
    if agent.hint_read_only is None or agent.hint_writable is None:
        _abi.warn_once("read_only has no effect: the agent of this process is older than this package")
        return thing
    found = False
    for leaf in leaves(thing):
        region = region_of(leaf)
        if region is None:
            continue
        found = True
        try:
            # Before the memory goes back to an allocator that gives it to others: the holder is released after.
            end = weakref.finalize(leaf, _take_back, agent.hint_writable, region.address, region.size, region.holder)
        except TypeError:
            kind = type(leaf).__name__
            _abi.warn_once(f"read_only passes over what is a {kind}: it cannot be told when one is gone")
            continue
        # Where the process ends there is nothing to take back. The stubs miss the setter.
        end.atexit = False  # type: ignore[misc]
        agent.hint_read_only(region.address, region.size)
    if not found:
        _abi.warn_once("read_only found nothing on a GPU: call it when the memory is there, after .cuda()")
    return thing


def _take_back(hint_writable: Callable[[int, int], None], address: int, size: int, holder: object) -> None:
    hint_writable(address, size)
