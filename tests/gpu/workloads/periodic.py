#!/usr/bin/env python3
"""`periodic.py --backend B --model MODEL:RESOLUTION:BYTES --turn T`: a task of the case study. It is told by lines what to do.

It says `ready` when all is imported. After `begin` it has a context, and says `begun`; after `load` its model, and says
`loaded`. `run SECONDS PERIOD_MS OFFSET_MS` releases jobs for so long, and it prints their times, as JSON.

How it comes to its turn on the GPU: `rtswap`, a declared job; `lock`, a file lock, the memory moved to the GPU and back around each
job; `memory-saver`, the lock, and torch_memory_saver's pause and resume. A `lock` that is told `ask` takes its memory back for
good, says `asking`, and is from then on suspended and resumed by whoever started it: around each job it says `want` and
`done`, and waits for a line.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import sys
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List

import with_models


class Turns:
    """How jobs come to the GPU."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.held_ms: List[float] = []

    def load(self) -> None:
        """Loads the model, in a turn of its own."""
        self.model.load()

    def enter(self) -> float:
        """Waits for the turn, and for the memory; when the GPU was this program's."""
        raise NotImplementedError

    def leave(self) -> None:
        """Gives the turn back."""
        raise NotImplementedError

    @contextlib.contextmanager
    def job(self) -> Iterator[None]:
        """Around a job."""
        start = self.enter()
        yield
        self.leave()
        self.held_ms.append((time.monotonic() - start) * 1e3)


class Declared(Turns):
    """Under rtswap, which has swapped in what is needed before the job begins, and does not swap out at its end."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        import rtswap

        self.declare: Callable[[], ContextManager[Any]] = rtswap.job
        self.declared: ContextManager[Any] = contextlib.nullcontext()

    def enter(self) -> float:
        self.declared = self.declare()
        self.declared.__enter__()
        return time.monotonic()

    def leave(self) -> None:
        self.declared.__exit__(None, None, None)


class Locked(Turns):
    """A file lock; only its holder has memory on the GPU."""

    def __init__(self, model: Any, path: str) -> None:
        super().__init__(model)
        self.file = open(path, "w")

    def load(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        self.model.load()
        self.leave()

    def enter(self) -> float:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        start = time.monotonic()
        self.model.come_back()
        return start

    def leave(self) -> None:
        self.model.leave()
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def ask(self) -> Turns:
        """Suspended and resumed from now on."""
        self.model.come_back()
        return Asked(self.model)


class Saved(Locked):
    """The same by torch_memory_saver, which keeps addresses."""

    def __init__(self, model: Any, path: str) -> None:
        super().__init__(model, path)
        from torch_memory_saver import torch_memory_saver

        self.saver = torch_memory_saver
        # Without a library that would have to be preloaded.
        self.saver.hook_mode = "torch"

    def load(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        with self.saver.region(enable_cpu_backup=True):
            self.model.load()
        self.leave()

    def enter(self) -> float:
        fcntl.flock(self.file, fcntl.LOCK_EX)
        start = time.monotonic()
        self.saver.resume()
        return start

    def leave(self) -> None:
        self.saver.pause()
        fcntl.flock(self.file, fcntl.LOCK_UN)


class Asked(Turns):
    """Suspended and resumed as a whole, from outside."""

    def enter(self) -> float:
        print("want", flush=True)
        sys.stdin.readline()
        return time.monotonic()

    def leave(self) -> None:
        print("done", flush=True)
        sys.stdin.readline()


def run(turns: Turns, seconds: float, period_ms: float, offset_ms: float) -> Dict[str, Any]:
    """Jobs at least a period apart; a late start moves the releases after it, so that it counts once."""
    model, period = turns.model, period_ms / 1e3
    start = time.monotonic()
    release, end = start + offset_ms / 1e3, start + seconds
    responses: List[float] = []
    turns.held_ms.clear()
    while release < end:
        time.sleep(max(0.0, release - time.monotonic()))
        came = time.monotonic()
        with turns.job():
            model.job()
        responses.append((time.monotonic() - release) * 1e3)
        release = max(came, release) + period
    misses = sum(response > period_ms for response in responses)
    return {"jobs": len(responses), "misses": misses, "wrong": model.wrong, "responses_ms": responses, "held_ms": turns.held_ms}


def main() -> None:
    """Does what the lines say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("driver", "torch", "torch-cpu"), required=True)
    parser.add_argument("--model", type=with_models.parse, required=True)
    parser.add_argument("--turn", choices=("rtswap", "lock", "memory-saver"), required=True)
    parser.add_argument("--lock", default="/dev/null")
    options = parser.parse_args()
    model = with_models.make(options.backend, *options.model)
    kinds: Dict[str, Any] = {
        "rtswap": lambda: Declared(model),
        "lock": lambda: Locked(model, options.lock),
        "memory-saver": lambda: Saved(model, options.lock),
    }
    turns: Any = kinds[options.turn]()
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        word, *numbers = line.split()
        if word == "begin":
            model.begin()
            print("begun", flush=True)
        elif word == "ask":
            turns = turns.ask()
            print("asking", flush=True)
        elif word == "load":
            turns.load()
            print("loaded", flush=True)
        elif word == "run":
            print(json.dumps(run(turns, *map(float, numbers))), flush=True)


if __name__ == "__main__":
    main()
