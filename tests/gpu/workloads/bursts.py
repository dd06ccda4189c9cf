#!/usr/bin/env python3
"""`bursts.py BACKEND`: says its kinds of work after `ready`; `burst KIND SECONDS` is answered by iterations per second.

Each iteration ends with the result on the host, as a program's job does.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any, Callable, Dict

Work = Dict[str, Callable[[], None]]


def with_driver() -> Work:
    """Without a framework: many small calls, and a job declared around some."""
    from driver import Cuda

    cuda, job = Cuda(), declared()
    size = 1 << 20
    one, other = cuda.alloc(size), cuda.alloc(size)

    def calls() -> None:
        for number in range(64):
            cuda.fill(one, number, 4096)
            cuda.copy(other, one, 4096)
        cuda.read(other, 64)

    def declared_calls() -> None:
        with job():
            calls()

    return {"driver calls": calls, "driver calls in declared jobs": declared_calls}


def with_torch(device: str) -> Work:
    """A network, the same in declared jobs, the same as a CUDA graph, and layers so small that only launching counts."""
    import networks
    import torch

    job = declared()
    torch.set_grad_enabled(False)
    network = networks.make("resnet", device).eval()
    images = torch.randn(8, 3, 224, 224, device=device)
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64, device=device) for _ in range(100)))
    little = torch.randn(1, 64, device=device)

    def eager() -> None:
        network(images).cpu()

    def in_jobs() -> None:
        with job():
            eager()

    def launches() -> None:
        layers(little).cpu()

    work: Work = {"resnet": eager, "resnet in declared jobs": in_jobs, "launches": launches}
    if device == "cuda":
        for _ in range(3):
            eager()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = network(images)

        def replay() -> None:
            graph.replay()
            result.cpu()

        work["resnet as a graph"] = replay
    return work


def declared() -> Callable[[], Any]:
    """rtswap's jobs, where the package is given; without an agent they are nothing."""
    try:
        import rtswap
    except ImportError:
        return contextlib.nullcontext
    return rtswap.job


def rate(iterate: Callable[[], None], seconds: float) -> float:
    """Iterations per second, of at least one."""
    start = time.perf_counter()
    count = 0
    while (took := time.perf_counter() - start) < seconds or not count:
        iterate()
        count += 1
    return count / took


def main() -> None:
    """Answers lines."""
    backend = sys.argv[1]
    if backend != "driver":
        # So that torch and torchvision are imported while others are.
        import networks  # noqa: F401
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    work = with_driver() if backend == "driver" else with_torch("cpu" if backend == "torch-cpu" else "cuda")
    for iterate in work.values():
        iterate()
    print("kinds", "|".join(work), sep="|", flush=True)
    for line in iter(sys.stdin.readline, ""):
        _, kind, seconds = line.strip().split("|")
        print(rate(work[kind], float(seconds)), flush=True)


if __name__ == "__main__":
    main()
