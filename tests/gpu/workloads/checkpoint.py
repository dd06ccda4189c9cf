#!/usr/bin/env python3
"""Suspends and resumes whole processes by the driver's own checkpoints: `suspend PID`, `resume PID`, answered by `ok` or an error."""

from __future__ import annotations

import ctypes
import sys

NEEDED = ("Lock", "Checkpoint", "Restore", "Unlock")


def main() -> None:
    """Answers lines; `none WHY` where the driver has no such functions."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        calls = {name: getattr(library, f"cuCheckpointProcess{name}") for name in NEEDED}
    except (OSError, AttributeError) as error:
        print(f"none {error}", flush=True)
        return
    library.cuInit(0)
    print("able", flush=True)
    steps = {"suspend": ("Lock", "Checkpoint"), "resume": ("Restore", "Unlock")}
    for line in iter(sys.stdin.readline, ""):
        word, pid = line.split()
        answer = "ok"
        for step in steps[word]:
            status = calls[step](int(pid), None)
            if status != 0:
                answer = f"cuCheckpointProcess{step}: CUresult {status}"
                break
        print(answer, flush=True)


if __name__ == "__main__":
    main()
