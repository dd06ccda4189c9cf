"""What the parts of the GPU kit stand on; the standard library only.

`kit` runs parts and collects what they write, `descendants` ends what they leave behind, `place` says where they
ran. `part` is a part's frame and its report, `machine` the GPU with a daemon, `program` a process with bounds.
"""

from .machine import GIB, MIB, Daemon, Gpu, Machine
from .part import Report, Skip, run_part
from .program import Finished, Program, ProgramError

__all__ = [
    "GIB",
    "MIB",
    "Daemon",
    "Finished",
    "Gpu",
    "Machine",
    "Program",
    "ProgramError",
    "Report",
    "Skip",
    "run_part",
]
