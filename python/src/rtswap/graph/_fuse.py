"""Fuses what an optimiser does to a parameter into one kernel, as fused optimisers have it."""

from __future__ import annotations

from rtswap.graph._trace import Kernel, Storage


def fuse_optimizer_step(storages: list[Storage], kernels: list[Kernel]) -> list[Kernel]:
    """The kernels of an optimiser's step, with all up to the next that changes a parameter as one.

    What is made in between is used by none of the kernels that follow, and needs no memory when it is fused.
    """
    result: list[Kernel] = []
    group: list[Kernel] = []
    for kernel in kernels:
        group.append(kernel)
        if any(storages[number].kind == "parameter" for number in kernel.updates):
            result.append(_fused(storages, group))
            group = []
    return result + group


def _fused(storages: list[Storage], group: list[Kernel]) -> Kernel:
    made = {number for kernel in group for number in kernel.outputs}
    # Versions of PyTorch have different kernels for the same step, so that only its results count as operations.
    updates = {number: kernel.flops for kernel in group for number in kernel.updates if number not in made}
    read = [number for kernel in group for number in kernel.inputs]
    inputs = [number for number in dict.fromkeys(read) if number not in made and number not in updates]
    return Kernel(
        f"{group[-1].name} (step)",
        sum(updates.values()),
        sum(storages[number].nbytes for number in [*inputs, *updates]),
        is_random=any(kernel.is_random for kernel in group),
        inputs=inputs,
        updates=list(updates),
    )
