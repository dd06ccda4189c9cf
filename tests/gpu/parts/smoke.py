#!/usr/bin/env python3
"""Two programs that do not fit together are swapped out and in under rtswapd, and compute what they should.

Each dnn compares every job's result with what the CPU worked out. Only a little of the card is handed out, so that
whatever is beside it can stay.
"""

from harness import MIB, ProgramError, Report, Machine, run_part

RANK = 10
LIMIT_S = 40

JOBS = 20


def measure(report: Report, machine: Machine) -> None:
    gpu = machine.gpu()
    weights, chunk = (32 * MIB, 2 * MIB) if machine.simulated else (1024 * MIB, 64 * MIB)
    # Two contexts, and one and a half of the two programs.
    memory = 2 * machine.context_bytes(gpu) + 3 * weights // 2 + 2 * chunk
    with machine.daemon(uuid=gpu.uuid, memory=memory, reserve=0, chunk=chunk) as daemon:
        options = ["--memory", str(weights), "--layers", "4", "--period", "200ms", "--jobs", str(JOBS)]
        command = [machine.binary("dnn"), *options, "--json", "--hold"]
        programs = {name: machine.task([*command, "--seed", seed], name=name) for name, seed in (("one", "1"), ("two", "2"))}
        reports = {name: program.wait_for("{", 25) for name, program in programs.items()}
        tasks = {name: daemon.task(name) for name in programs}
        jobs = wrong = 0
        for name, program in programs.items():
            finished = program.finish(10)
            if finished.code not in (0, 1):
                raise ProgramError(f"{name} ended with {finished.code}: {finished.stderr[-500:]}")
            said = finished.json()
            jobs, wrong = jobs + said["jobs"], wrong + said["checksum_errors"]
            print(name, reports[name], tasks[name], flush=True)
        moved = [sum(task[f"swap_{way}_bytes_total"] for task in tasks.values()) for way in ("out", "in")]
        report.figure("jobs", jobs, "jobs", least=2 * JOBS)
        # Jobs that are late follow each other without a pause, which the daemon takes for one: it counts fewer.
        report.figure("jobs that rtswapd counted", sum(task["jobs"] for task in tasks.values()), "jobs", least=2)
        report.figure("wrong results", wrong, "jobs", most=0)
        report.figure("swapped out", moved[0] / MIB, "MiB", least=4 * weights / MIB)
        report.figure("swapped in", moved[1] / MIB, "MiB", least=4 * weights / MIB)


if __name__ == "__main__":
    run_part("smoke", measure)
