"""Records what PyTorch runs: each kernel of one iteration, and the memory that it touches.

Tensors on the ``meta`` device have shapes and no memory, so a model of any size can be recorded on any machine. What is recorded is
what eager PyTorch dispatches: forward, the backward of autograd, and the optimiser's steps, views resolved to the memory behind them.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
import torch._meta_registrations
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from ._flops import flops

aten = torch.ops.aten

# They reserve memory and write nothing.
_ALLOCATIONS = frozenset(
    {aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default}
)


class Memory:
    """A piece of memory: what the tensors that share a storage are in."""

    def __init__(self, kind: str, nbytes: int, name: str = "") -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.name = name
        self.maker: Optional[int] = None
        self.readers = 0


class Kernel:
    """One operator as it ran."""

    def __init__(self, name: str, work: int, moved: int) -> None:
        self.name = name
        self.flops = work
        self.bytes = moved
        self.inputs: List[int] = []
        self.outputs: List[int] = []
        self.updates: List[int] = []


class Recorder(TorchDispatchMode):
    """Records the kernels that run while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.memories: List[Memory] = []
        self.kernels: List[Kernel] = []
        self.kind = "activation"
        self._numbers: Dict[int, int] = {}
        # A storage that ended could come back under the same number. Weak: autograd works in place only on what nobody else holds.
        self._held: List[Any] = []

    def know(self, tensor: torch.Tensor, kind: str, name: str = "") -> int:
        """The number of the memory behind a tensor; new memory is of that kind."""
        storage = _storage(tensor)
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = len(self.memories)
            self._numbers[storage._cdata] = number
            self.memories.append(Memory(kind, storage.nbytes(), name))
            self._held.append(StorageWeakRef(storage))
        elif kind in _GIVEN and self.memories[number].maker is None:
            # Reserved under this recording already.
            self.memories[number].kind = kind
        return number

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Tuple[Any, ...] = (),
        kwargs: Optional[Dict[str, Any]] = None,
    ) -> Any:
        kwargs = kwargs or {}
        results = _run(func, args, kwargs)
        if func.namespace != "aten":
            return results
        made = [one for one in tree_flatten(results)[0] if isinstance(one, torch.Tensor)]
        if func in _ALLOCATIONS:
            for tensor in made:
                self.know(tensor, self.kind)
            return results
        read, written = _arguments(func, args, kwargs)
        before = {_storage(tensor)._cdata for tensor in read}
        if not written and made and all(_storage(tensor)._cdata in before for tensor in made):
            return results
        self._add(func, args, kwargs, read, written, made)
        return results

    def _add(
        self,
        func: Any,
        args: Tuple[Any, ...],
        kwargs: Dict[str, Any],
        read: List[torch.Tensor],
        written: List[torch.Tensor],
        made: List[torch.Tensor],
    ) -> None:
        touched = read + [tensor for tensor in made if not _is_in(tensor, written)]
        moved = sum(tensor.numel() * tensor.element_size() for tensor in touched)
        kernel = Kernel(str(func).replace("aten.", "").replace(".default", ""), flops(func, args, kwargs, made), moved)
        changed = [self.know(tensor, self.kind) for tensor in written]
        inputs = [self.know(tensor, self.kind) for tensor in read]
        outputs = [self.know(tensor, self.kind) for tensor in made]
        for number in dict.fromkeys(changed):
            is_new = self.memories[number].kind not in _GIVEN and self.memories[number].maker is None
            (kernel.outputs if is_new else kernel.updates).append(number)
        for number in dict.fromkeys(inputs):
            if number not in kernel.updates and number not in kernel.outputs:
                kernel.inputs.append(number)
        for number in dict.fromkeys(outputs):
            if number not in kernel.updates and number not in kernel.outputs and number not in kernel.inputs:
                kernel.outputs.append(number)
        if not any(tensor.numel() for tensor in touched):
            return
        for number in kernel.outputs:
            self.memories[number].maker = len(self.kernels)
        for number in kernel.inputs + kernel.updates:
            self.memories[number].readers += 1
        self.kernels.append(kernel)


_GIVEN = ("parameter", "optimizer state", "input")


def _run(func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if func is aten.convolution_backward.default and args[0].is_meta:
        # The meta device of PyTorch 1 has none.
        _, activation, weight = args[:3]
        masks = args[-1]
        bias = weight.new_empty([weight.shape[0] if not args[7] else weight.shape[1] * args[9]])
        shapes = [torch.empty_like(activation), torch.empty_like(weight), bias]
        return tuple(one if mask else None for one, mask in zip(shapes, masks))
    return func(*args, **kwargs)


def _arguments(
    func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tuple[List[torch.Tensor], List[torch.Tensor]]:
    """The tensors that a kernel reads, and those of them that it changes in place."""
    read: List[torch.Tensor] = []
    written: List[torch.Tensor] = []
    for place, argument in enumerate(func._schema.arguments):
        given = args[place] if place < len(args) else kwargs.get(argument.name)
        tensors = [one for one in tree_flatten(given)[0] if isinstance(one, torch.Tensor)]
        read.extend(tensors)
        if argument.alias_info is not None and argument.alias_info.is_write:
            written.extend(tensors)
    return read, written


def _is_in(tensor: torch.Tensor, tensors: List[torch.Tensor]) -> bool:
    return any(tensor is one for one in tensors)


def _storage(tensor: torch.Tensor) -> Any:
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    return tensor.storage().untyped()
