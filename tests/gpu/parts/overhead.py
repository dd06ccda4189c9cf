#!/usr/bin/env python3
"""What rtswap takes of a program's throughput when everything fits: the same program bare and under it, in turns.

Both processes are there all the time and work in short bursts, one after the other, so that clocks and temperatures are the same
for both. Of each the best burst counts: what disturbs only ever makes it slower.
"""

import sys
import time
from pathlib import Path
from typing import Dict, List

from harness import GIB, Machine, Program, Report, Skip, run_part

RANK = 40
LIMIT_S = 50

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
sys.path.insert(0, str(WORKLOADS))

import common  # noqa: E402

READY_S = 30
BURST_S = 0.5
ROUNDS = 6
# The claim, for programs that do something; launches of nothing are shown, and have no bound.
MOST_PERCENT = 1.0
UNBOUNDED = ("launches", "driver calls", "driver calls in declared jobs")
MARGIN_S = 5.0


def burst(program: Program, kind: str) -> float:
    program.say(f"burst|{kind}|{BURST_S}")
    return float(program.line(BURST_S + READY_S))


def measure(report: Report, machine: Machine) -> None:
    end = time.monotonic() + min(report.left_s(), LIMIT_S) - MARGIN_S
    if not machine.simulated and not common.has("torch"):
        raise Skip("there is no torch")
    gpu = machine.gpu()
    backend = common.find_backend(report, machine)
    size = {} if machine.simulated else {"memory": min(gpu.memory_bytes, 16 * GIB)}
    with machine.daemon(uuid=gpu.uuid, **size) as daemon:
        command = [sys.executable, "-B", WORKLOADS / "bursts.py", backend]
        python = common.python_path(machine)
        bare = machine.start(command, name="bare", **python)
        managed = machine.task(command, name="managed", **python)
        for program in (bare, managed):
            program.wait_for("ready", READY_S)
            program.say("begin")
        kinds: List[str] = [program.wait_for("kinds", READY_S).split("|")[1:] for program in (bare, managed)][0]
        rates: Dict[str, List[List[float]]] = {kind: [[], []] for kind in kinds}
        for turn in range(ROUNDS):
            if time.monotonic() + 2 * len(kinds) * BURST_S > end:
                report.note(f"{turn} rounds of {ROUNDS}: the time was over")
                break
            for kind in kinds:
                # Neither is always the first.
                order = (bare, managed) if turn % 2 else (managed, bare)
                for program in order:
                    rates[kind][program is managed].append(burst(program, kind))
        task = daemon.task("managed")
        if task is None or task["swap_out_bytes_total"]:
            report.fail(f"something was swapped, so this is no figure for what fits: {task}")
    for kind, (alone, under) in rates.items():
        bounded = kind not in UNBOUNDED and not machine.simulated
        report.figure(f"{kind}: bare", round(max(alone), 2), "per second")
        report.figure(f"{kind}: bare bursts differ by", round(100 * (1 - min(alone) / max(alone)), 3), "%")
        taken = 100 * (1 - max(under) / max(alone))
        report.figure(f"{kind}: overhead", round(taken, 3), "%", most=MOST_PERCENT if bounded else None)
    if machine.simulated:
        report.note("on the simulated GPU: an overhead over its model")


if __name__ == "__main__":
    run_part("overhead", measure)
