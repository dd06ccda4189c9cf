"""What parts that start models ask of the machine."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Dict

from harness import Machine, ProgramError, Report

# Importing torch, in many processes at once.
READY_S = 60


def has(module: str) -> bool:
    """Whether it is installed, be it usable or not."""
    return importlib.util.find_spec(module) is not None


def find_backend(report: Report, machine: Machine) -> str:
    """`torch` where it is installed, else `driver`, which is said. A torch that cannot compute on a real GPU is a failure."""
    backend = "driver"
    if not machine.simulated and has("torch"):
        code = "import torch; assert torch.ones(1, device='cuda').item() == 1"
        tried = machine.run([sys.executable, "-c", code], READY_S, name="torch")
        if tried.code == 0:
            backend = "torch"
        else:
            last = (tried.stderr.strip().splitlines() or ["no words"])[-1]
            report.fail(f"torch is installed and does not compute on the GPU: {last[:300]}")
    report.note(f"backend: {backend}" + ("" if backend == "torch" else ", memory that driver calls copy and fill stands for the networks"))
    return backend


def python_path(machine: Machine) -> Dict[str, str]:
    """The variable by which a program finds the package rtswap, before what it would find without."""
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(package(machine)), *([inherited] if inherited else [])])}


def package(machine: Machine) -> Path:
    """The Python package rtswap, of the bundle or of the sources."""
    # From the sources the kit runs as tests/gpu.
    sources = Path(__file__).resolve().parent / "../../../python/src"
    for folder in (machine.bundle / "python", sources):
        if (folder / "rtswap").is_dir():
            return folder
    raise ProgramError(f"the Python package rtswap is neither in {machine.bundle}/python nor in {sources}")
