"""What one iteration of a model did: its kernels, and the storages that they used. Nothing in here needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, field

# A storage of these kinds holds its value before the first kernel of the iteration.
GIVEN = ("parameter", "optimizer_state", "input")


@dataclass
class Storage:
    """A piece of memory, which a tensor and all its views share."""

    # One of GIVEN, or "activation" if made in the forward pass, or "gradient" if made after it.
    kind: str
    # Its size in bytes.
    nbytes: int
    # The parameter's or buffer's name in the model; empty for all others.
    name: str = ""
    # Whether a kernel of the iteration has written it.
    is_made: bool = False


@dataclass
class Kernel:
    """One operator as PyTorch dispatched it. It has storages as numbers, their places in a list, each at most once."""

    # The ATen operator and its overload, such as "add_.Tensor" or "mm".
    name: str
    # Floating-point operations, a multiply-add counted as two.
    flops: int
    # Bytes of all its tensors, those that it changes in place counted once.
    nbytes: int
    # How its arithmetic differs from others of its name: "depthwise", or empty.
    arithmetic: str = ""
    # Whether it draws random numbers, so that it makes something else each time it runs.
    is_random: bool = False
    # Storages that it only reads.
    inputs: list[int] = field(default_factory=list)
    # Storages that had no value before it.
    outputs: list[int] = field(default_factory=list)
    # Storages that it changes in place.
    updates: list[int] = field(default_factory=list)

    def storages(self) -> list[int]:
        """All storages that it uses."""
        return self.inputs + self.updates + self.outputs
