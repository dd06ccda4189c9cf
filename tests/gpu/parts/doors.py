#!/usr/bin/env python3
"""Every way into the driver gives the same bytes while all memory leaves and returns between every two calls.

The probes are those of tests/doors that a driver alone can judge. Each runs bare, and under the agent with
RTSWAP_TORTURE=every-call and a real rtswapd. Several run at a time; what went wrong then is tried once more alone, because
some ask how much memory is free.
"""

import json
import os
import threading
import time

from harness import MIB, Machine, ProgramError, Report, run_part

RANK = 60
LIMIT_S = 100

# One run of one probe; on silicon most of it is the start of a context.
PROBE_S = 15
# So many at a time, on a machine with as many processors.
LANES = min(8, max(2, os.cpu_count() or 2))
# On the simulated GPU one in so many, which shows that the bundle's programs start and their lines are read: `cargo xtask
# doors` tries all of them there, and more closely.
SIMULATED_SHARE = 25
# After these a probe waits for a line.
WAITS = ("ready", "answered", "shared", "base", "freed")
# Of those that a real driver is asked, at least: of fewer this part says too little.
LEAST_SHARE = 0.8


class Late(ProgramError):
    """A probe took longer than one may."""


class Over(Exception):
    """The part's time ended before the probe's."""


def name_of(probe: dict) -> str:
    """As tests/doors calls it."""
    return f"{probe['file']}.{probe['argument']}"


def run(machine: Machine, probe: dict, name: str, last: float, **how: object) -> list:
    """What one run of a probe prints but for its turns; the time of all is over at `last`."""
    command = [machine.binary("doors") / probe["file"], probe["argument"]]
    with machine.start(command, name=name, DOORS_FOLDER=str(command[0].parent), **how) as program:
        said, own = [], time.monotonic() + PROBE_S
        end = min(own, last)
        while not said or said[-1] != "ok":
            try:
                line = program.line(max(0.0, end - time.monotonic()))
            except ProgramError as error:
                if time.monotonic() < end - 0.01 or not program.is_running():
                    raise
                raise (Late(str(error)) if own <= last else Over()) from None
            if line.split(" ")[0] in WAITS:
                program.say("go")
            else:
                said.append(line)
        try:
            code = program.finish(5).code
        except ProgramError as error:
            raise Late(str(error)) from None
        if code != 0:
            raise ProgramError(f"ended with an error after all: {program.stderr()[-300:]}")
    return said


def tried(machine: Machine, probe: dict, last: float) -> str:
    """What came of a probe: `bare` where this driver does not do it even without rtswap, `late` where it does not end then."""
    name = name_of(probe)
    try:
        bare = run(machine, probe, f"{name}.bare", last)
    except Late as error:
        return f"late: {error}"
    except ProgramError as error:
        return f"bare: {error}"
    try:
        under = run(machine, probe, name, last, agent=True, RTSWAP_TORTURE="every-call")
    except ProgramError as error:
        return f"broken: {error}"
    return f"differs: {under} for {bare}" if probe["compares"] and bare != under else "ok"


def asked(report: Report, machine: Machine, probes: list) -> list:
    """Those of the probes that are tried on this machine."""
    if not machine.simulated:
        return probes
    few = probes[::SIMULATED_SHARE]
    report.note(f"left out: {len(probes) - len(few)} of {len(probes)} probes, which `cargo xtask doors` tries on the simulated GPU")
    return few


def measure(report: Report, machine: Machine) -> None:
    machine.simulate(memory="256MiB", d2h_gib_per_s=8.0, h2d_gib_per_s=8.0)
    gpu = machine.gpu()
    probes = asked(report, machine, json.loads((machine.binary("doors") / "programs.json").read_text()))
    last = time.monotonic() + min(report.left_s(), LIMIT_S) - 8
    # What is begun can mostly end.
    end, left, outcomes, turn = last - PROBE_S, list(probes), {}, threading.Lock()

    def lane() -> None:
        while time.monotonic() < end:
            with turn:
                if not left:
                    return
                probe = left.pop(0)
            try:
                outcome = tried(machine, probe, last)
            except Over:
                return
            with turn:
                outcomes[name_of(probe)] = outcome
                print(f"{name_of(probe)}: {outcome}", flush=True)

    with machine.daemon(uuid=gpu.uuid, chunk=2 * MIB):
        lanes = [threading.Thread(target=lane) for _ in range(LANES)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()
        for probe in probes:
            if outcomes.get(name_of(probe), "ok") != "ok" and time.monotonic() < last:
                try:
                    outcomes[name_of(probe)] = tried(machine, probe, last)
                except Over:
                    break
    for name, outcome in sorted(outcomes.items()):
        if outcome != "ok":
            report.note(f"{name}: {outcome}")
    tell(report, machine, [outcome.split(":")[0] for outcome in outcomes.values()], len(set(map(name_of, probes))))


def tell(report: Report, machine: Machine, outcomes: list, probes: int) -> None:
    """How many came to what. On a real GPU too few that say something, or not all tried, is a failure."""
    count = {word: outcomes.count(word) for word in ("ok", "bare", "late", "broken", "differs")}
    least = 1 if machine.simulated else max(1, LEAST_SHARE * len(outcomes))
    report.figure("probes that give the same", count["ok"], "probes", least=least)
    report.figure("probes that rtswap breaks", count["broken"] + count["differs"], "probes", most=0)
    report.figure("probes that this driver refuses without rtswap", count["bare"], "probes", **({"most": 0} if machine.simulated else {}))
    report.figure("probes that do not end without rtswap", count["late"], "probes", most=0)
    report.figure("probes for which there was no time", probes - len(outcomes), "probes", most=None if machine.simulated else 0)


if __name__ == "__main__":
    run_part("doors", measure)
