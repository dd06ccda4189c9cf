#!/usr/bin/env python3
"""What rtswap believes about the driver holds: addresses, mappings, errors, order, sharing, death.

The rows are those of tests/conformance, which the simulated GPU passes too. As root, rtswapd's probes must count to the
byte what a process asks this driver for.
"""

import os
from typing import List

from harness import MIB, Daemon, Machine, ProgramError, Report, run_part
from harness.program import wait_until

RANK = 30
LIMIT_S = 80
# What the probes are left.
PROBES_S = 20

# On the simulated GPU the cases whose names begin so: in a process without a context, in one that is shared, in one that a
# fault ends, and an open question. It shows that the bundle's program starts and its rows are read: tests/conformance runs
# all cases there.
SIMULATED_CASES = ("bad/init-flags", "create/", "sticky/illegal-address", "order/free-waits-for-kernels")

HELD = 24 * MIB
# A driver library in use is found within a second (docs/configuration.md), and what it holds seen, on a machine that is not too busy.
SEEN_S = 10


def measure(report: Report, machine: Machine) -> None:
    cases(report, machine, max(1.0, min(report.left_s(), LIMIT_S) - PROBES_S))
    probes(report, machine)


def cases(report: Report, machine: Machine, limit_s: float) -> None:
    """Asks the driver case by case. The rows that came are kept, however the program ends."""
    conformance = machine.binary("conformance")
    names = asked(report, machine, machine.run([conformance, "--list"], 5, name="cases").stdout.split())
    rows, why = [], ""
    with machine.start([conformance, "--json", *(SIMULATED_CASES if machine.simulated else ())]) as program:
        try:
            for row in program.rows(limit_s):
                rows.append(row)
                # Of what agrees, the open questions: what this driver does, which no document says.
                if row["outcome"] != "agrees" or row["basis"] == "open":
                    report.note(f"{row['name']}: {row['outcome']}: {row['seen']} ({row['basis']}: {row['source']})")
        except ProgramError as error:
            why = f": {error}"
        finally:
            for outcome in ("agrees", "differs", "skipped"):
                count = sum(row["outcome"] == outcome for row in rows)
                report.figure(f"cases: {outcome}", count, "cases", **({"most": 0} if outcome == "differs" else {}))
            missing = [name for name in names if name not in {row["name"] for row in rows}]
            if missing or not names:
                first = f", none from {missing[0]} on" if missing else ""
                report.fail(f"{len(rows)} of {len(names)} cases{first}{why or ': ' + program.stderr().strip()[-500:]}")


def asked(report: Report, machine: Machine, names: List[str]) -> List[str]:
    """Those of the cases that this machine's driver is asked."""
    if not machine.simulated:
        return names
    few = [name for name in names if name.startswith(SIMULATED_CASES)]
    report.note(f"left out: {len(names) - len(few)} of {len(names)} cases, which tests/conformance runs on the simulated GPU")
    return few


def probes(report: Report, machine: Machine) -> None:
    """How much of what a process holds the eBPF probes counted."""
    if os.geteuid() != 0:
        report.note("probes: not available: they take root")
        return
    with machine.daemon(daemon="probes = true") as daemon:
        command = [machine.binary("conformance"), "--role", "hold", str(HELD)]
        seen = {}

        def found() -> bool:
            said = daemon.status()["probes"]
            # They are off until they have started.
            return said["libraries"] > 0 or said["state"] not in ("on", "off")

        def counted() -> bool:
            processes = daemon.status()["processes"]
            seen.update(next((process for process in processes if process["pid"] == holder.pid), {}))
            return (seen.get("probed") or {}).get("bytes", 0) >= HELD

        # What was asked for before a driver library was found in use cannot be known: the first has it found.
        first = machine.start(command, name="first")
        first.wait_for("held", 30)
        try:
            wait_until("the probes find a driver library", SEEN_S, found)
        except ProgramError as error:
            blind(report, machine, daemon, f"probes: {error}")
            return
        holder = machine.start(command, name="holder")
        holder.wait_for("held", 30)
        try:
            wait_until("the probes see a process that holds memory", SEEN_S, counted)
        except ProgramError as error:
            blind(report, machine, daemon, f"probes: {error}; rtswapd shows {seen or 'no such process'}")
        holder.kill()
        first.kill()
    if seen.get("probed"):
        off = seen["probed"]["bytes"] - HELD
        report.figure("probes: bytes more than were asked for", off, "bytes", least=0, most=0)


def blind(report: Report, machine: Machine, daemon: Daemon, what: str) -> None:
    """What probes that saw too little say of themselves."""
    said = daemon.status()["probes"]
    if said["state"] != "on":
        report.note(f"probes: not available: {said['state']}")
    else:
        unseen(report, machine, f"{what}; and of the probes {said}")


def unseen(report: Report, machine: Machine, what: str) -> None:
    """Probes that are on and see nothing of a process are broken; of the simulated GPU's libraries they are not asked for that."""
    if machine.simulated:
        report.note(what)
    else:
        report.fail(what)


if __name__ == "__main__":
    run_part("conformance", measure)
