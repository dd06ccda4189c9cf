"""Tell rtswap where a job begins and ends, and what its kernels only read.

Needs nothing but Python, and nothing of rtswap to be installed: without the agent in the process (a program that was
not started by ``rtswapctl run``) all of this does nothing, and the program runs as it is.
"""

from rtswap._abi import is_managed
from rtswap._job import Job, job
from rtswap._read_only import read_only
from rtswap._status import StatusError, status
from rtswap._task import Task, TaskStats, task
from rtswap._version import __version__

__all__ = [
    "Job",
    "StatusError",
    "Task",
    "TaskStats",
    "__version__",
    "is_managed",
    "job",
    "read_only",
    "status",
    "task",
]
