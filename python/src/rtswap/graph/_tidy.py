"""What recording changes, changed back."""

from __future__ import annotations

from typing import Dict, List

from ._record import Kernel, Memory

_ADD = "add.Tensor"
_PRODUCTS = ("mm",)


def add_in_place(memories: List[Memory], kernels: List[Kernel], fused: bool) -> List[Kernel]:
    """Sums of gradients in place, as autograd makes them where nobody else holds the first: a dispatch mode keeps it from that.

    With ``fused``, a product that is only added to such a sum is added by the product's own kernel, as MXNet's ``add_to`` and cuBLAS with a
    beta of 1 do.
    """
    last: Dict[int, int] = {}
    for place, kernel in enumerate(kernels):
        for number in kernel.inputs + kernel.updates + kernel.outputs:
            last[number] = place
    same: Dict[int, int] = {}
    done: List[Kernel] = []
    makers: Dict[int, int] = {}
    touched: Dict[int, int] = {}

    def now(number: int) -> int:
        while number in same:
            number = same[number]
        return number

    for place, kernel in enumerate(kernels):
        ended = {number for number in kernel.inputs if last[number] == place}
        kernel.inputs = [now(number) for number in kernel.inputs]
        kernel.updates = [now(number) for number in kernel.updates]
        if kernel.name == _ADD and len(kernel.outputs) == 1 and len(kernel.inputs) == 2:
            made = kernel.outputs[0]
            sums = [
                number
                for number in ended
                if memories[number].kind == "gradient" and memories[number].nbytes == memories[made].nbytes
            ]
            if memories[made].kind == "gradient" and sums:
                target = now(min(sums))
                same[made] = target
                added = [number for number in kernel.inputs if number != target]
                kernel.inputs, kernel.outputs, kernel.updates = added, [], [target]
                kernel.name = "add_.Tensor"
                maker = makers.get(added[0]) if added else None
                # Nothing uses the sum between the product and its addition.
                if (
                    fused
                    and maker is not None
                    and maker > touched.get(target, 0)
                    and touched[added[0]] == maker
                    and done[maker].name in _PRODUCTS
                ):
                    done[maker].name += " (add)"
                    done[maker].outputs.remove(added[0])
                    done[maker].updates.append(target)
                    touched[target] = maker
                    continue
        for number in kernel.outputs:
            makers[number] = len(done)
        for number in kernel.inputs + kernel.updates + kernel.outputs:
            touched[number] = len(done)
        done.append(kernel)
    return done
