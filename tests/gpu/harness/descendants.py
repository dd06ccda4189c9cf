"""Ends whatever a part leaves behind, also what became a daemon or left its session."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import List

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """From now on orphans among our descendants become our children, instead of those of PID 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children() -> List[int]:
    """Our children, those that ended and were not waited for included."""
    ours, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                # The name before may hold spaces and brackets.
                parent = stat.read().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == ours:
            found.append(int(name))
    return found


def end_all(limit_s: float) -> List[int]:
    """Kills all children and, as they become ours, theirs; those that are still there when the time is over."""
    end = time.monotonic() + limit_s
    while True:
        left = children()
        if not left or time.monotonic() > end:
            return left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
        time.sleep(0.01)
