#!/usr/bin/env python3
"""The agent moves memory at nearly the rate of plain pinned copies, measured beside them in one run.

By chunk size: raw copies, swap-out and swap-in from request to acknowledgement, the calls for a chunk. At the chosen
size: ρ with both directions at once, the fingerprint, what copies cost a kernel, and the driver's own checkpoint.
"""

from typing import Dict

from harness import Machine, ProgramError, Report, run_part

RANK = 20
LIMIT_S = 110

# Of the raw pinned copy, both ways, at the chosen chunk size.
LEAST_PERCENT = 90.0
# The driver's own checkpoint, whose calls have no bound.
CHECKPOINT_S = 20.0

# What is told once, after the chunk sizes, by its key.
LATER = {
    "chosen_chunk_mib": ("chosen chunk", "MiB"),
    "raw_duplex": ("ρ of plain copies", ""),
    "kernel_inflation": ("a kernel beside copies both ways, over alone", "times"),
    "fingerprint_gib_per_s": ("fingerprint", "GiB/s"),
    "swap_duplex": ("ρ of two agents", ""),
}


def measure(report: Report, machine: Machine) -> None:
    options = ["--agent", machine.binary("librtswap_cuda.so")]
    if machine.simulated:
        # Two of each chunk at least: raw and swapped, in two processes.
        machine.simulate(memory="128MiB")
        options += ["--chunks-mib", "2,8", "--total-mib", "16", "--rounds", "2"]
        report.note("over the simulated link of 1 GiB/s: these figures show that the kit works, and nothing of a GPU")
    limit_s = max(1.0, min(report.left_s(), LIMIT_S) - CHECKPOINT_S - 5)
    sizes: Dict[int, dict] = {}
    missing = dict(LATER)
    with machine.start([machine.binary("movement"), "measure", *options]) as program:
        try:
            for line in program.rows(limit_s):
                if "error" in line:
                    report.fail(f"{line['what']}: {line['error']}")
                    continue
                if "raw" in line:
                    sizes[line["chunk_mib"]] = line
                    rows(report, line)
                for key in LATER.keys() & line.keys():
                    missing.pop(key)
                    report.figure(LATER[key][0], line[key], LATER[key][1])
                if "chosen_chunk_mib" in line:
                    compare(report, sizes[line["chosen_chunk_mib"]], machine.simulated)
            code = program.finish(5).code
            if code != 0:
                report.fail(f"movement ended with {code}: {program.stderr().strip()[-500:]}")
        except ProgramError as error:
            report.fail(str(error))
        finally:
            if missing:
                after = f"after {max(sizes)} MiB" if sizes else "all"
                names = ", ".join(name for name, _ in missing.values())
                report.fail(f"missing: {names}" + (f", chunk sizes: {after}" if "chosen_chunk_mib" in missing else ""))
    if sizes:
        checkpoint(report, machine, sizes[max(sizes)])


def rows(report: Report, size: dict) -> None:
    """What there is for one chunk size."""
    chunk = f"{size['chunk_mib']} MiB"
    for kind in ("raw", "swap"):
        for way, rate in (size[kind] or {}).items():
            report.figure(f"{chunk}, {kind} {way}", rate, "GiB/s")
    if size["raw"] and size["swap"]:
        for way in ("out", "in"):
            # The shares say why a size was chosen, or was not.
            report.figure(f"{chunk}, swap {way} of raw", 100 * size["swap"][way] / size["raw"][way], "%")
    for call, took in (size["calls_us"] or {}).items():
        report.figure(f"{chunk}, {call}", took, "µs")


def compare(report: Report, size: dict, simulated: bool) -> None:
    """The chosen size against what is asked for, which is asked of silicon."""
    bound = {} if simulated else {"least": LEAST_PERCENT}
    for way in ("out", "in"):
        report.figure(f"chosen chunk, swap {way} of raw", 100 * size["swap"][way] / size["raw"][way], "%", **bound)


def checkpoint(report: Report, machine: Machine, size: dict) -> None:
    """The peer that the driver has. Where it fails, that is none of ours, and is said."""
    command = [machine.binary("movement"), "checkpoint", size["chunks"], size["chunk_mib"]]
    try:
        finished = machine.run(command, min(CHECKPOINT_S, max(1.0, report.left_s() - 3)), name="checkpoint")
        if finished.code != 0:
            raise ProgramError(finished.stderr.strip()[-500:])
        peer = finished.json()
    except ProgramError as error:
        report.note(f"driver checkpoint: not measured: {error}")
        return
    gib = peer["bytes"] / 2**30
    report.figure("driver checkpoint, out", gib / (peer["lock_s"] + peer["checkpoint_s"]), "GiB/s")
    report.figure("driver checkpoint, in", gib / (peer["restore_s"] + peer["unlock_s"]), "GiB/s")


if __name__ == "__main__":
    run_part("movement", measure)
