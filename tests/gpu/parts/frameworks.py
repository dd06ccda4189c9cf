#!/usr/bin/env python3
"""Frameworks compute the same bytes under rtswap, their memory swapped out and in between every two GPU calls.

Each program of workloads/frameworks.py runs plain, and then under the agent with RTSWAP_TORTURE=every-call. What a framework
computes must be the same bit for bit. What cannot be imported, or does not run without rtswap either, is said and skipped.
"""

import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from harness import GIB, MIB, Machine, Program, ProgramError, Report, run_part

RANK = 20
LIMIT_S = 150

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
sys.path.insert(0, str(WORKLOADS))

from frameworks import SKIPPED  # noqa: E402
from frameworks import WORKLOADS as NAMES  # noqa: E402

# Of each framework and in all of a run.
LEAST_SWAPS = 1000
# What a plain run computes for the tortured one to be compared with.
STEPS = 200
# Importing, and compiling.
READY_S = 60
# For stepping under torture, of each; as far as there is time for all, and no longer than it takes to swap often enough.
MOST_S = 20.0
# More than are asked for, so that the figure does not hang on the last one.
ENOUGH = 1.2
# A framework with one workload has to swap as often in that as another in all of its.
ALONE = 3
# What is left to the part for its start and its end.
MARGIN_S = 12.0
# Imports are mostly waiting for the disk.
AT_ONCE = 4

TORTURE = re.compile(r"torture: (\d+) bytes out and in")


class Outcome(NamedTuple):
    """What a run printed: `why` where there was none."""

    digests: List[str]
    why: Optional[str]


def command(name: str, *options: str) -> List[str]:
    return [sys.executable, "-B", str(WORKLOADS / "frameworks.py"), name, *options]


def outcome(program: Program, limit_s: float) -> Outcome:
    """How a workload ended."""
    finished = program.finish(limit_s)
    lines = finished.stdout.splitlines()
    if finished.code == SKIPPED:
        return Outcome([], next((line for line in lines if line.startswith("skip: ")), "skip: says nothing")[6:])
    if finished.code != 0:
        last = (finished.stderr.strip().splitlines() or ["no words"])[-1]
        return Outcome([], f"ended with {finished.code}: {last[:300]}")
    return Outcome([line for line in lines if line[:1].isdigit()], None)


def plain(machine: Machine, name: str, cache: Dict[str, str]) -> Outcome:
    """Runs it as without rtswap."""
    program = machine.start(command(name, "--steps", str(STEPS), "--seconds", "6"), name=f"{name}-plain", **cache)
    try:
        return outcome(program, READY_S)
    except ProgramError as error:
        return Outcome([], str(error)[:300])


def compare(report: Report, name: str, expected: List[str], program: Program, seconds: float, enough: int) -> int:
    """Lets a tortured one go until it was swapped often enough, and says how it differs; how often that was."""

    def swaps() -> int:
        return sum(int(left) > 0 for left in TORTURE.findall(program.stderr()))

    try:
        program.wait_for("ready", READY_S)
        program.say("")
        end = time.monotonic() + seconds
        while program.is_running() and time.monotonic() < end and swaps() < enough:
            time.sleep(0.1)
        # The end of its input is what it ends with.
        found = outcome(program, READY_S)
    except ProgramError as error:
        found = Outcome([], str(error)[:500])
    program.kill()
    if found.why is not None:
        report.fail(f"{name} runs without rtswap and not under it: {found.why}")
        return swaps()
    compared = min(len(expected), len(found.digests))
    different = sum(one != other for one, other in zip(expected, found.digests))
    report.figure(f"{name}: steps that differ", different, f"of {compared}", most=0)
    report.figure(f"{name}: swaps", swaps(), "times out and in")
    if compared < 2:
        report.fail(f"{name}: {compared} steps were compared, too few")
    return swaps()


def family(name: str) -> str:
    """The framework of a workload."""
    return name.partition("-")[0]


def measure(report: Report, machine: Machine) -> None:
    end = time.monotonic() + min(report.left_s(), LIMIT_S) - MARGIN_S
    machine.simulate(d2h_gib_per_s=16.0, h2d_gib_per_s=16.0)
    gpu = machine.gpu()
    # What is compiled once is found by the second run, which then launches the same kernels.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(machine.scratch / "inductor"), "TRITON_CACHE_DIR": str(machine.scratch / "triton")}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {name: pool.submit(plain, machine, name, cache) for name in NAMES}
        plains = {name: run.result() for name, run in runs.items()}
    names = []
    for name, run in plains.items():
        if run.why is None:
            names.append(name)
        else:
            report.note(f"{name}: skipped, it does not run here without rtswap: {run.why}")
    counts = Counter(map(family, names))
    size = {} if machine.simulated else {"memory": min(gpu.memory_bytes, 16 * GIB)}
    chunk = 2 * MIB if machine.simulated else 8 * MIB
    with machine.daemon(uuid=gpu.uuid, chunk=chunk, **size):
        torture = {**cache, "RTSWAP_TORTURE": "every-call", "RTSWAP_LOG": "debug"}

        def start(name: str) -> Program:
            return machine.task(command(name, "--steps", str(STEPS), "--wait"), name=name, **torture)

        # They import while others run; the GPU is one's at a time.
        waiting = {name: start(name) for name in names[:AT_ONCE]}
        swaps: Dict[str, int] = {}
        for place, name in enumerate(names):
            shares = {each: 1 if counts[family(each)] > 1 else ALONE for each in names[place:]}
            seconds = min(MOST_S, (end - time.monotonic()) * shares[name] / sum(shares.values()))
            if seconds < 1:
                report.fail(f"the time was over before {', '.join(names[place:])}")
                break
            enough = int(ENOUGH * LEAST_SWAPS / counts[family(name)]) + 1
            swaps[name] = compare(report, name, plains[name].digests, waiting.pop(name), seconds, enough)
            waiting.update({later: start(later) for later in names[place + AT_ONCE : place + AT_ONCE + 1]})
    families: Dict[str, int] = Counter()
    for name, count in swaps.items():
        families[family(name)] += count
    for framework, count in families.items():
        report.figure(f"{framework}: swaps in all", count, "times out and in", least=LEAST_SWAPS)
    if set(families) == {"driver"}:
        report.note("no framework runs here: this compared plain driver calls alone")


if __name__ == "__main__":
    run_part("frameworks", measure)
