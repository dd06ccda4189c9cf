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
# On the simulated GPU one in so many: `cargo xtask doors` tries all of them there, and more closely.
SIMULATED_SHARE = 5
# After these a probe waits for a line.
WAITS = ("ready", "answered", "base", "freed")


def name_of(probe: dict) -> str:
    """As tests/doors calls it."""
    return f"{probe['file']}.{probe['argument']}"


def run(machine: Machine, probe: dict, name: str, **how: object) -> list:
    """What one run of a probe prints but for its turns."""
    command = [machine.binary("doors") / probe["file"], probe["argument"]]
    with machine.start(command, name=name, DOORS_FOLDER=str(command[0].parent), **how) as program:
        said, end = [], time.monotonic() + PROBE_S
        while not said or said[-1] != "ok":
            line = program.line(max(0.0, end - time.monotonic()))
            if line.split(" ")[0] in WAITS:
                program.say("go")
            else:
                said.append(line)
        if program.finish(5).code != 0:
            raise ProgramError(f"ended with an error after all: {program.stderr()[-300:]}")
    return said


def tried(machine: Machine, probe: dict) -> str:
    """What came of a probe: `bare` where this driver does not do it even without rtswap."""
    name = name_of(probe)
    try:
        bare = run(machine, probe, f"{name}.bare")
    except ProgramError as error:
        return f"bare: {error}"
    try:
        under = run(machine, probe, name, agent=True, RTSWAP_TORTURE="every-call")
    except ProgramError as error:
        return f"broken: {error}"
    return f"differs: {under} for {bare}" if probe["compares"] and bare != under else "ok"


def measure(report: Report, machine: Machine) -> None:
    machine.simulate(memory="256MiB", d2h_gib_per_s=8.0, h2d_gib_per_s=8.0)
    gpu = machine.gpu()
    probes = json.loads((machine.binary("doors") / "programs.json").read_text())
    if machine.simulated:
        probes = probes[::SIMULATED_SHARE]
        report.note(f"one in {SIMULATED_SHARE} of them: `cargo xtask doors` tries all on the simulated GPU")
    end, left, outcomes, turn = time.monotonic() + min(report.left_s(), LIMIT_S) - 2 * PROBE_S - 5, list(probes), {}, threading.Lock()

    def lane() -> None:
        while time.monotonic() < end:
            with turn:
                if not left:
                    return
                probe = left.pop(0)
            outcome = tried(machine, probe)
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
            if outcomes.get(name_of(probe), "ok") != "ok" and time.monotonic() < end + PROBE_S:
                outcomes[name_of(probe)] = tried(machine, probe)
    for name, outcome in sorted(outcomes.items()):
        if outcome != "ok":
            report.note(f"{name}: {outcome}")
    count = {word: sum(outcome.split(":")[0] == word for outcome in outcomes.values()) for word in ("ok", "bare", "broken", "differs")}
    report.figure("probes that give the same", count["ok"], "probes", least=1)
    report.figure("probes that rtswap breaks", count["broken"] + count["differs"], "probes", most=0)
    report.figure("probes that this driver refuses without rtswap", count["bare"], "probes", **({"most": 0} if machine.simulated else {}))
    report.figure("probes for which there was no time", len(left), "probes")


if __name__ == "__main__":
    run_part("doors", measure)
