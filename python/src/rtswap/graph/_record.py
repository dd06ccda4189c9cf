"""Records the kernels that PyTorch dispatches, and the storages behind their tensors.

What is recorded is what eager PyTorch dispatches below autograd: the forward pass, the backward pass and the
optimiser's step. A view shares the storage of its base, so an operator that only makes a view is no kernel.
"""

from __future__ import annotations

import re
from typing import Any

import torch

# PyTorch 1.13 registers meta kernels of Python only when this is imported.
import torch._meta_registrations
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from rtswap.graph._arithmetic import arithmetic, flops
from rtswap.graph._meta import MISSING_KERNELS
from rtswap.graph._trace import GIVEN, Kernel, Storage

# These reserve a storage and launch no kernel.
_ALLOCATIONS = frozenset(
    {"empty.memory_format", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)


class Recorder(TorchDispatchMode):
    """Records the kernels on one device that are dispatched while the mode is active.

    Tensors on other devices are ignored: host memory is not the GPU's, and PyTorch keeps scalars and its profiler's
    handles there.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.storages: list[Storage] = []
        self.kernels: list[Kernel] = []
        # The kind of storages that are made from now on.
        self.kind = "activation"
        self._device = device
        self._numbers: dict[int, int] = {}
        # A weak reference keeps the identity of a freed storage from being given to the next one. A strong one would
        # keep autograd from working in place, which it does only on what it alone refers to.
        self._references: list[Any] = []

    def track(self, tensor: torch.Tensor, kind: str, name: str = "") -> int:
        """The number of the storage behind a tensor. A storage that has none yet is of this kind and has this name."""
        storage = _storage(tensor)
        number = self._numbers.get(storage._cdata)
        if number is None:
            number = len(self.storages)
            self._numbers[storage._cdata] = number
            self.storages.append(Storage(kind, storage.nbytes(), name))
            self._references.append(StorageWeakRef(storage))
        return number

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        is_meta = self._device.type == "meta"
        results = _call_on_meta(func, args, kwargs) if is_meta else func(*args, **kwargs)
        if func.namespace == "aten":
            self._record(func, args, kwargs, results)
        return results

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], results: Any) -> None:
        made = self._tensors(results)
        name = _name(func)
        if name in _ALLOCATIONS:
            for tensor in made:
                self.track(tensor, self.kind)
            return
        read, written = self._arguments(func, args, kwargs)
        known = {_storage(tensor)._cdata for tensor in read}
        is_view = not written and made and all(_storage(tensor)._cdata in known for tensor in made)
        tensors = read + [tensor for tensor in made if not any(tensor is one for one in written)]
        if is_view or not any(tensor.numel() for tensor in tensors):
            return
        for tensor in read:
            # A storage that was neither reserved nor made here is a constant of the model that is no buffer.
            self.track(tensor, "parameter")
        kernel = Kernel(
            name,
            flops(func, args, made),
            sum(tensor.numel() * tensor.element_size() for tensor in tensors),
            arithmetic(func, args),
            torch.Tag.nondeterministic_seeded in func.tags,
        )
        self._add(kernel, *([self.track(one, self.kind) for one in some] for some in (written, read, made)))

    def _add(self, kernel: Kernel, written: list[int], read: list[int], made: list[int]) -> None:
        """Adds a kernel. A storage that it is the first to write is its output, even if it was passed to be changed."""
        for number in dict.fromkeys(written):
            storage = self.storages[number]
            has_value = storage.is_made or storage.kind in GIVEN
            (kernel.updates if has_value else kernel.outputs).append(number)
        changed = kernel.updates + kernel.outputs
        kernel.inputs = [number for number in dict.fromkeys(read) if number not in changed]
        kernel.outputs += [number for number in dict.fromkeys(made) if number not in changed + kernel.inputs]
        for number in kernel.outputs:
            self.storages[number].is_made = True
        self.kernels.append(kernel)

    def _arguments(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The tensors among an operator's arguments, and those of them that its schema says it changes."""
        read: list[torch.Tensor] = []
        written: list[torch.Tensor] = []
        for place, argument in enumerate(func._schema.arguments):
            tensors = self._tensors(args[place] if place < len(args) else kwargs.get(argument.name))
            read.extend(tensors)
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.extend(tensors)
        return read, written

    def _tensors(self, tree: Any) -> list[torch.Tensor]:
        leaves = tree_flatten(tree)[0]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device == self._device]


def _call_on_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func in MISSING_KERNELS and args[0].is_meta:
        return MISSING_KERNELS[func](*args)
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        # NotImplementedError is one too. Others that do not name the device, such as those of shapes, are the model's.
        if not isinstance(error, NotImplementedError) and not re.search(r"\bmeta\b", str(error), re.IGNORECASE):
            raise
        raise NotImplementedError(
            f"{func} does not run on the meta device of PyTorch {torch.__version__}: replace it in the model, register "
            "a meta kernel for it with torch.library, or record the model on a device that runs it, such as the CPU"
        ) from error


def _name(func: Any) -> str:
    """``add_.Tensor`` for ``aten.add_.Tensor``; overloads that PyTorch's versions choose differently have one name."""
    operator, overload = str(func).split(".")[1:]
    return operator if overload in ("default", "vec") else f"{operator}.{overload}"


def _storage(tensor: torch.Tensor) -> Any:
    # PyTorch 1.13 has only storages with a type around the untyped one.
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()
