#!/usr/bin/env python3
"""The agent moves memory at nearly the rate of plain pinned copies, measured beside them in one run.

By chunk size: raw copies, swap-out and swap-in from request to acknowledgement, the calls for a chunk. At the chosen
size: ρ with both directions at once, the fingerprint, what copies cost a kernel, and the driver's own checkpoint.
"""

from harness import Machine, ProgramError, Report, run_part

RANK = 20
LIMIT_S = 110

# Of the raw pinned copy, both ways, at the chosen chunk size.
LEAST_PERCENT = 90.0


def measure(report: Report, machine: Machine) -> None:
    command = [machine.binary("movement"), "measure", "--agent", machine.binary("librtswap_cuda.so")]
    if machine.simulated:
        # Two of each chunk at least: raw and swapped, in two processes.
        machine.simulate(memory="128MiB")
        command += ["--chunks-mib", "2,8", "--total-mib", "16", "--rounds", "2"]
        report.note("over the simulated link of 1 GiB/s: these figures show that the kit works, and nothing of a GPU")
    finished = machine.run(command, min(report.left_s(), LIMIT_S) - 5)
    if finished.code != 0:
        raise ProgramError(f"movement: {finished.stderr.strip()}")
    found = finished.json()
    for size in found["sizes"]:
        rows(report, machine, size, size["chunk_mib"] == found["chosen_chunk_mib"])
    report.figure("chosen chunk", found["chosen_chunk_mib"], "MiB")
    report.figure("ρ of plain copies", found["raw_duplex"], "")
    report.figure("ρ of two agents", found["swap_duplex"], "")
    report.figure("fingerprint", found["fingerprint_gib_per_s"], "GiB/s")
    report.figure("a kernel beside copies both ways, over alone", found["kernel_inflation"], "times")
    checkpoint(report, found)


def rows(report: Report, machine: Machine, size: dict, chosen: bool) -> None:
    """What there is for one chunk size."""
    chunk = f"{size['chunk_mib']} MiB"
    for way in ("out", "in"):
        raw, swap = size["raw"][way], size["swap"][way]
        report.figure(f"{chunk}, raw {way}", raw, "GiB/s")
        report.figure(f"{chunk}, swap {way}", swap, "GiB/s")
        # Silicon is what the bound is for; at other sizes the share says why they were not chosen.
        bound = {"least": LEAST_PERCENT} if chosen and not machine.simulated else {}
        report.figure(f"{chunk}, swap {way} of raw", 100 * swap / raw, "%", **bound)
    for call, took in size["calls_us"].items():
        report.figure(f"{chunk}, {call}", took, "µs")


def checkpoint(report: Report, found: dict) -> None:
    """The peer that the driver has."""
    peer = found["checkpoint"]
    if "why" in peer:
        report.note(f"driver checkpoint: not measured: {peer['why']}")
        return
    gib = peer["bytes"] / 2**30
    report.figure("driver checkpoint, out", gib / (peer["lock_s"] + peer["checkpoint_s"]), "GiB/s")
    report.figure("driver checkpoint, in", gib / (peer["restore_s"] + peer["unlock_s"]), "GiB/s")


if __name__ == "__main__":
    run_part("movement", measure)
