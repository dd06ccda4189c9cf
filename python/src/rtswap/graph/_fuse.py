"""Fuses what an optimiser does to a parameter into one kernel, as fused optimisers have it."""

from __future__ import annotations

from rtswap.graph._trace import Kernel, Storage


def fuse_optimizer_step(storages: list[Storage], kernels: list[Kernel]) -> list[Kernel]:
    """The kernels of an optimiser's step, with all up to the next that changes a parameter as one.

    What is made in between needs no memory when it is fused.

    :raises ValueError: a later kernel uses what is made in between, or changes a parameter a second time: the optimiser
        does not go from one parameter to the next as Adam and SGD do.
    """
    result: list[Kernel] = []
    group: list[Kernel] = []
    gone: set[int] = set()
    for kernel in kernels:
        changed = {number for number in kernel.updates if storages[number].kind == "parameter"}
        if gone & {*kernel.inputs, *kernel.updates, *changed}:
            raise ValueError(
                f"the optimiser's kernel {kernel.name} uses what an earlier fused step made or changed: "
                "record it with fuse_optimizer=False"
            )
        group.append(kernel)
        if changed:
            gone |= changed.union(*(each.outputs for each in group))
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
