"""What the workloads share: steps that print a digest of their bytes, and bytes that no other seed gives."""

import ctypes
import hashlib
import pathlib
import random

KERNELS = pathlib.Path(__file__).parents[2] / "demo" / "dnn" / "src" / "kernels.ptx"


def pattern(size, seed):
    """Bytes that no other seed gives."""
    return random.Random(seed).randbytes(size)


def place(buffer):
    """The address of a buffer's bytes."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class Steps:
    """Functions that give bytes, to be run in order. Each prints a line of its own, so that two runs can be compared."""

    def __init__(self):
        self.steps = []

    def __call__(self, step):
        self.steps.append(step)
        return step

    def run(self, *arguments):
        for step in self.steps:
            print(step.__name__, hashlib.sha256(step(*arguments)).hexdigest(), flush=True)
