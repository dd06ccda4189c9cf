"""The agent's functions (rtswap.h), found in the process itself: the agent is preloaded, never loaded by us."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import warnings
from typing import Any, Callable, NamedTuple, Optional


class Agent(NamedTuple):
    """What rtswap.h declares. ctypes gives up the GIL in each call, so that other threads run while a job waits."""

    job_begin: Callable[[], None]
    job_end: Callable[[], None]
    # (device address, bytes); None in an agent from before there was the function.
    hint_read_only: Optional[Callable[[int, int], None]]
    hint_writable: Optional[Callable[[int, int], None]]
    # (name); likewise.
    job_begin_named: Optional[Callable[[bytes], None]]


@functools.lru_cache(maxsize=None)
def agent() -> Agent | None:
    """The agent of this process, or None. It can only be there from the start on, so it is looked for once."""
    process = ctypes.CDLL(None)

    def find(name: str, *arguments: Any) -> Callable[..., None] | None:
        try:
            function = process[name]
        except AttributeError:
            return None
        function.argtypes = arguments
        function.restype = None
        return function

    begin, end = find("rtswap_job_begin"), find("rtswap_job_end")
    if begin is None or end is None:
        return None
    region = (ctypes.c_void_p, ctypes.c_size_t)
    return Agent(
        begin,
        end,
        find("rtswap_hint_read_only", *region),
        find("rtswap_hint_writable", *region),
        find("rtswap_job_begin_named", ctypes.c_char_p),
    )


def is_managed() -> bool:
    """Whether this process has rtswap's agent: ``rtswapctl run`` started it, or the agent was preloaded.

    The agent wakes up when CUDA is initialised. If it finds no daemon then, it says so on standard error, and the
    program runs as without it.
    """
    return agent() is not None


_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warns of what would mislead the user, at the user's line; of the same only once in a process."""
    if text in _warned:
        return
    _warned.add(text)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def warn_if_lost() -> None:
    """A task's name without an agent: the user asked for rtswap and does not have it."""
    name = os.environ.get("RTSWAP_TASK")
    if name and not is_managed():
        warn_once(
            f"this process is to be task {name!r} of rtswap, but the agent is not loaded: it runs without rtswap; "
            "LD_PRELOAD must reach it (not through sudo, not in a static or musl program)"
        )
