#!/usr/bin/env python3
"""`frameworks.py NAME [--device cuda|cpu] [--steps N] [--seconds S] [--wait]`: prints what each step computed.

Lines: `ready` when all is imported; then `STEP DIGEST` for each step. Two runs of one name on one machine print the same.
`skip: WHY` and exit code 77 where it cannot run. After S seconds it ends with the step that it is at; with --wait it begins at a
line of input, and ends likewise with its input. It does not end before the second step.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import select
import sys
import time
from typing import Callable, Dict, Iterator, NamedTuple

SKIPPED = 77

Steps = Iterator[bytes]


class Unavailable(Exception):
    """What this workload needs is not there."""


class Workload(NamedTuple):
    """One way of using the GPU."""

    module: str
    function: str
    environment: Dict[str, str] = {}


# XLA would choose among kernels by their times.
_XLA = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0",
}
# Deterministic, and small: what is swapped each time is what counts.
_BLAS = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}

WORKLOADS: Dict[str, Workload] = {
    "driver": Workload("with_driver", "steps"),
    "torch-eager": Workload("with_torch", "eager", _BLAS),
    "cupy": Workload("with_others", "cupy"),
    "jax": Workload("with_others", "jax", _XLA),
    "onnxruntime": Workload("with_others", "onnxruntime"),
    "torch-graphs": Workload("with_torch", "graphs", _BLAS),
    "torch-expandable": Workload("with_torch", "eager", {**_BLAS, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    "torch-malloc-async": Workload("with_torch", "eager", {**_BLAS, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    "torch-libraries": Workload("with_torch", "libraries", {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}),
    "torch-streams": Workload("with_torch", "streams", _BLAS),
    "torch-loader": Workload("with_torch", "loader", _BLAS),
    # The last: it compiles while the others run.
    "torch-compile": Workload("with_torch", "compiled", {**_BLAS, "TORCHINDUCTOR_COMPILE_THREADS": "1"}),
}


def main() -> int:
    """Runs one; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--wait", action="store_true")
    options = parser.parse_args()
    workload = WORKLOADS[options.name]
    # Before anything is imported that reads it.
    os.environ.update(workload.environment)
    try:
        module = importlib.import_module(workload.module)
        begin: Callable[[str], Steps] = getattr(module, workload.function)
        steps = begin(options.device)
        # What it imports, without touching the GPU.
        next(steps)
        print("ready", flush=True)
        if options.wait:
            # Unbuffered: what `select` is asked about is all that there is.
            if os.read(0, 1) != b"\n":
                return 0
        end = time.monotonic() + options.seconds
        for number in range(options.steps):
            print(number, hashlib.sha256(next(steps)).hexdigest(), flush=True)
            over = time.monotonic() > end or (options.wait and select.select([0], [], [], 0)[0])
            if over and number >= 1:
                break
    except (ImportError, Unavailable) as why:
        print(f"skip: {why}", flush=True)
        return SKIPPED
    return 0


if __name__ == "__main__":
    # Its neighbours are modules of their own; so that they find `Unavailable`, it is one as well.
    sys.modules["frameworks"] = sys.modules["__main__"]
    sys.exit(main())
