"""What parts that start models ask of the machine."""

from __future__ import annotations

import sys
from pathlib import Path

from harness import Machine, ProgramError, Report

# Importing torch, in many processes at once.
READY_S = 60


def find_backend(report: Report, machine: Machine) -> str:
    """`torch` where it can compute on the GPU, else `driver`, which is said."""
    if machine.simulated:
        return "driver"
    code = "import torch; assert torch.cuda.is_available()"
    if machine.run([sys.executable, "-c", code], READY_S, name="torch").code == 0:
        return "torch"
    report.note("no torch with a GPU: memory that driver calls copy and fill stands for the networks")
    return "driver"


def package(machine: Machine) -> Path:
    """The Python package rtswap, of the bundle or of the sources."""
    # From the sources the kit runs as tests/gpu.
    sources = Path(__file__).resolve().parent / "../../../python/src"
    for folder in (machine.bundle / "python", sources):
        if (folder / "rtswap").is_dir():
            return folder
    raise ProgramError(f"the Python package rtswap is neither in {machine.bundle}/python nor in {sources}")
