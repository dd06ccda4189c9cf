#!/usr/bin/env python3
"""Frameworks compute the same bytes under rtswap, their memory swapped out and in between every two GPU calls.

Each program of workloads/frameworks.py runs plain, and then under the agent with RTSWAP_TORTURE=every-call. What a framework
computes must be the same bit for bit. What says that it cannot run here is skipped, and counted. On a real GPU a workload that fails
without rtswap too fails the part, as does a framework that is installed and of which nothing runs.
"""

import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from harness import GIB, MIB, Machine, Program, ProgramError, Report, run_part

RANK = 20
LIMIT_S = 150

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
sys.path.insert(0, str(WORKLOADS))

from common import has  # noqa: E402
from frameworks import SKIPPED  # noqa: E402
from frameworks import WORKLOADS as NAMES  # noqa: E402

# Of each framework and in all of a run. The simulated GPU swaps as fast as its host lets it: there a tenth is enough.
LEAST_SWAPS = 1000
# What a plain run computes for the tortured one to be compared with.
STEPS = 200
# Importing, and a short run.
READY_S = 60
# A plain run that compiles takes longer; the others are swapped in the meantime.
PLAIN_S = {"torch-compile": 100}
# For stepping under torture, of each; as far as there is time for all, and no longer than it takes to swap often enough.
MOST_S = 20.0
# More than are asked for, so that the figure does not hang on the last one.
ENOUGH = 1.2
# A framework with one workload has to swap as often in that as another in all of its.
ALONE = 3
# What is left to the part for its start and its end.
MARGIN_S = 12.0
# Imports are mostly waiting for the disk.
AT_ONCE = 6

TORTURE = re.compile(r"torture: (\d+) bytes out and in")


class Outcome(NamedTuple):
    """What a run printed: `why` where there was none, `skipped` where that is its own choice."""

    digests: List[str]
    why: Optional[str]
    skipped: bool = False


def command(name: str, *options: str) -> List[str]:
    return [sys.executable, "-B", str(WORKLOADS / "frameworks.py"), name, *options]


def outcome(program: Program, limit_s: float) -> Outcome:
    """How a workload ended."""
    finished = program.finish(limit_s)
    lines = finished.stdout.splitlines()
    if finished.code == SKIPPED:
        return Outcome([], next((line for line in lines if line.startswith("skip: ")), "skip: says nothing")[6:], True)
    if finished.code != 0:
        last = (finished.stderr.strip().splitlines() or ["no words"])[-1]
        return Outcome([], f"ended with {finished.code}: {last[:300]}")
    return Outcome([line for line in lines if line[:1].isdigit()], None)


def within(limit_s: float, end: float) -> float:
    """A wait that ends before the part has to: some of what is left to its end is for this."""
    return max(0.0, min(limit_s, end - time.monotonic() + MARGIN_S / 2))


def plain(machine: Machine, name: str, cache: Dict[str, str], end: float) -> Outcome:
    """Runs it as without rtswap."""
    program = machine.start(command(name, "--steps", str(STEPS), "--seconds", "6"), name=f"{name}-plain", **cache)
    try:
        return outcome(program, within(PLAIN_S.get(name, READY_S), end))
    except ProgramError as error:
        return Outcome([], str(error)[:300])


def compare(report: Report, name: str, expected: List[str], program: Program, seconds: float, enough: int, end: float) -> int:
    """Lets a tortured one go until it was swapped often enough, and says how it differs; how often that was."""

    def swaps() -> int:
        return sum(int(left) > 0 for left in TORTURE.findall(program.stderr()))

    try:
        program.wait_for("ready", within(READY_S, end))
        program.say("")
        over = time.monotonic() + seconds
        while program.is_running() and time.monotonic() < over and swaps() < enough:
            time.sleep(0.1)
        # The end of its input is what it ends with.
        found = outcome(program, within(READY_S, end))
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


def is_skip(machine: Machine, run: Outcome) -> bool:
    """On a real GPU only the workload itself may say that it cannot run."""
    return run.skipped or (machine.simulated and run.why is not None)


def not_run(report: Report, machine: Machine, name: str, run: Outcome) -> None:
    """Says that there is nothing to compare with."""
    if is_skip(machine, run):
        report.note(f"{name}: skipped, it does not run here without rtswap: {run.why}")
    else:
        report.fail(f"{name} does not run without rtswap: {run.why}")


def tell_families(report: Report, machine: Machine, skipped: int, ran: List[str]) -> None:
    """On a real GPU something has to run of each framework that is installed."""
    report.figure("workloads skipped", skipped, f"of {len(NAMES)}")
    families = set(map(family, ran))
    for framework in dict.fromkeys(map(family, NAMES)):
        if framework not in families and framework != "driver" and has(framework) and not machine.simulated:
            report.fail(f"{framework} is installed, and nothing of it ran")
    if families <= {"driver"}:
        report.note("no framework runs here: this compared plain driver calls alone")


def measure(report: Report, machine: Machine) -> None:
    end = time.monotonic() + min(report.left_s(), LIMIT_S) - MARGIN_S
    machine.simulate(d2h_gib_per_s=16.0, h2d_gib_per_s=16.0)
    # What is compiled once is found by the second run, which then launches the same kernels.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(machine.scratch / "inductor"), "TRITON_CACHE_DIR": str(machine.scratch / "triton")}
    pool = ThreadPoolExecutor(AT_ONCE)
    # The longest begin first.
    order = sorted(NAMES, key=lambda name: name not in PLAIN_S)
    plains = {name: pool.submit(plain, machine, name, cache, end) for name in order}
    try:
        ran = torture_all(report, machine, plains, cache, end)
    finally:
        # Those that run end with the machine's programs.
        for run in plains.values():
            run.cancel()
    over = [run.result() for run in plains.values() if run.done() and not run.cancelled()]
    tell_families(report, machine, sum(is_skip(machine, run) for run in over), ran)


def torture_all(report: Report, machine: Machine, plains: "Dict[str, Future[Outcome]]", cache: Dict[str, str], end: float) -> List[str]:
    """Compares one after the other with its plain run; those that were."""
    names = []
    for name in NAMES:
        # The long ones have the time of the others; as yet they count as if they ran.
        if name in PLAIN_S or plains[name].result().why is None:
            names.append(name)
        else:
            not_run(report, machine, name, plains[name].result())
    counts = Counter(map(family, names))
    gpu = machine.gpu()
    size = {} if machine.simulated else {"memory": min(gpu.memory_bytes, 16 * GIB)}
    chunk = 2 * MIB if machine.simulated else 8 * MIB
    ran: List[str] = []
    swaps: Dict[str, int] = Counter()
    with machine.daemon(uuid=gpu.uuid, chunk=chunk, **size):
        torture = {**cache, "RTSWAP_TORTURE": "every-call", "RTSWAP_LOG": "debug"}

        def start(name: str) -> Program:
            return machine.task(command(name, "--steps", str(STEPS), "--wait"), name=name, **torture)

        # They import while others run; the GPU is one's at a time.
        waiting = {name: start(name) for name in names[:AT_ONCE]}
        for place, name in enumerate(names):
            program, run = waiting.pop(name), plains[name].result()
            shares = {each: 1 if counts[family(each)] > 1 else ALONE for each in names[place:]}
            seconds = min(MOST_S, (end - time.monotonic()) * shares[name] / sum(shares.values()))
            if run.why is not None:
                program.kill()
                not_run(report, machine, name, run)
            elif seconds < 1:
                report.fail(f"the time was over before {', '.join(names[place:])}")
                break
            else:
                enough = int(ENOUGH * LEAST_SWAPS / counts[family(name)]) + 1
                swaps[family(name)] += compare(report, name, run.digests, program, seconds, enough, end)
                ran.append(name)
            waiting.update({later: start(later) for later in names[place + AT_ONCE : place + AT_ONCE + 1]})
            if family(name) in swaps and family(name) not in map(family, names[place + 1 :]):
                tell_swaps(report, machine, family(name), swaps.pop(family(name)))
        for framework, count in swaps.items():
            tell_swaps(report, machine, framework, count)
    return ran


def tell_swaps(report: Report, machine: Machine, framework: str, count: int) -> None:
    """The sum of a framework's workloads."""
    least = LEAST_SWAPS // 10 if machine.simulated else LEAST_SWAPS
    report.figure(f"{framework}: swaps in all", count, "times out and in", least=least)


if __name__ == "__main__":
    run_part("frameworks", measure)
