"""Undoes what recording changes about the accumulation of gradients."""

from __future__ import annotations

from rtswap.graph._trace import Kernel, Storage

_SUM = "add.Tensor"
_SUM_IN_PLACE = "add_.Tensor"
_PRODUCT = "mm"


def accumulate_in_place(storages: list[Storage], kernels: list[Kernel], fuse: bool) -> list[Kernel]:
    """The same kernels with sums of gradients made in place, as autograd makes them when nothing is recorded.

    Autograd adds to the first gradient in place if nothing else refers to it, and a dispatch mode always does. So a sum
    whose operand is a gradient of the same size that no later kernel uses becomes an update of that gradient's storage.

    With ``fuse``, a matrix product that is only added to such a sum becomes one kernel, ``mm (add)``, which adds in
    place: MXNet does so (``add_to``), and cuBLAS with a beta of 1.
    """
    # All places here are those of kernels, and all numbers those of storages.
    last_use = {number: place for place, kernel in enumerate(kernels) for number in kernel.storages()}
    # The storage that a sum is now made in, for each storage that it was recorded in.
    merged: dict[int, int] = {}
    result: list[Kernel] = []
    # The places in `result` of the kernel that made a storage, and of the last that used it.
    maker: dict[int, int] = {}
    user: dict[int, int] = {}

    def is_gradient_ended(number: int, place: int, nbytes: int) -> bool:
        storage = storages[number]
        return last_use[number] == place and storage.kind == "gradient" and storage.nbytes == nbytes

    for place, kernel in enumerate(kernels):
        targets: list[int] = []
        if kernel.name == _SUM and len(kernel.inputs) == 2 and len(kernel.outputs) == 1:
            made = kernel.outputs[0]
            if storages[made].kind == "gradient":
                nbytes = storages[made].nbytes
                targets = [number for number in kernel.inputs if is_gradient_ended(number, place, nbytes)]
        first = min(targets, default=None)
        kernel.inputs = [merged.get(number, number) for number in kernel.inputs]
        kernel.updates = [merged.get(number, number) for number in kernel.updates]
        if first is not None:
            target = merged.get(first, first)
            merged[kernel.outputs[0]] = target
            (addend,) = (number for number in kernel.inputs if number != target)
            kernel.name, kernel.inputs, kernel.outputs, kernel.updates = _SUM_IN_PLACE, [addend], [], [target]
            product = maker.get(addend, -1)
            # Neither the product nor the sum is used between the two kernels.
            if fuse and product > user[target] and user[addend] == product and result[product].name == _PRODUCT:
                result[product].name += " (add)"
                result[product].outputs.remove(addend)
                result[product].updates.append(target)
                user[target] = product
                continue
        maker.update((number, len(result)) for number in kernel.outputs)
        user.update((number, len(result)) for number in kernel.storages())
        result.append(kernel)
    return result
