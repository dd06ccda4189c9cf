#!/usr/bin/env python3
"""The paper's case study and a heavier one: deadlines met by rtswap, by a time-sharing lock, by suspending whole processes.

A ballast of plain allocations leaves 24 GiB of the card, the paper's, or what host memory allows. Every task uses all of its
memory in each job. Unified memory is not compared: beyond what is free it can hang a card.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from harness import GIB, MIB, Machine, Program, ProgramError, Report, Skip, run_part

RANK = 30
LIMIT_S = 270

WORKLOADS = Path(__file__).resolve().parent.parent / "workloads"
sys.path.insert(0, str(WORKLOADS))

import common  # noqa: E402
import measured  # noqa: E402
import sets  # noqa: E402

READY_S = common.READY_S
# A model, and what has to leave for it.
LOAD_S = 20
# Of a run: the heavier set has longer periods.
RUN_S = {"table 4": 12.0, "heavier": 15.0}
# A model after the other, alone.
PROFILE_S = 90
# Of the jobs that the periods make due, those done at least: one that is late moves the releases after it.
DONE = 0.9
# The WCET is the longest of so many jobs alone, by this much longer and this many ms more: beside others the copy engines are busy.
PROFILED = 20
WCET_FACTOR, WCET_MORE_MS = 1.5, 3.0
# What is measured of a chunk or a copy alone, likewise.
COST_FACTOR, COST_MORE_US, RATE_FACTOR = 1.5, 200.0, 0.8
# From a request to its acknowledgement; beside best-effort it is charged with every chunk.
BASE_US = 500.0
# What a framework takes beside a context and what is asked of it: its kernels' code, and the rounding of its allocator.
CODE = 192 * MIB
# Models are loaded as undeclared jobs. A pause as long as this ends one: with shorter pauses a part of the loading would
# pass for a job of the task, and from then on its parts would come a period apart.
IDLE_GAP_US = 300_000
# From one factor of the periods to the next that is tried, and how many are.
STEP, STEPS = 1.15, 30


class Stage:
    """What all runs share: the GPU as it is left to them, the programs, the measured costs."""

    def __init__(self, report: Report, machine: Machine) -> None:
        self.report, self.machine = report, machine
        self.end = time.monotonic() + min(report.left_s(), LIMIT_S) - 5
        machine.simulate(memory="512MiB", context_bytes="4MiB", d2h_gib_per_s=0.5, h2d_gib_per_s=0.5, compute_gib_per_s=16.0)
        self.gpu = machine.gpu()
        self.chunk = 2 * MIB if machine.simulated else 32 * MIB
        self.backend = common.find_backend(report, machine)
        self.python = common.python_path(machine)

    def say(self, limit_s: float, script: str, *arguments: Any) -> Dict[str, Any]:
        """A script that answers with JSON."""
        finished = self.machine.run([sys.executable, "-B", WORKLOADS / script, *arguments], limit_s, name=script.partition(".")[0])
        if finished.code != 0:
            raise ProgramError(f"{script}: {finished.stderr[-500:]}")
        return dict(finished.json())

    def limit_memory(self) -> None:
        """Measures what swapping costs, and leaves the paper's memory, or what there is."""
        report, found = self.report, self.say(READY_S, "costs.py", self.chunk)
        self.costs = sets.Costs(
            found["out_gib_per_s"] * RATE_FACTOR,
            found["in_gib_per_s"] * RATE_FACTOR,
            found["gone_us"] * COST_FACTOR + COST_MORE_US,
            found["made_us"] * COST_FACTOR + COST_MORE_US,
            BASE_US,
        )
        report.figure("link, both ways at once", found["out_gib_per_s"], "GiB/s each")
        context = self.machine.context_bytes(self.gpu)
        self.fixed = context + (self.chunk if self.backend == "driver" else CODE)
        # All tasks' memory in host memory, as the lock has it, and the processes.
        host = max(0, host_available() * 7 // 10 - len(sets.HEAVY) * 3 * GIB // 2)
        fits = host / sum(task.footprint for task in sets.HEAVY) * sets.PAPER_CAPACITY
        room = found["free"] - (4 * MIB if self.machine.simulated else GIB)
        capacity = min(384 * MIB, room) if self.machine.simulated else min(sets.PAPER_CAPACITY, room, int(fits))
        self.capacity = capacity // self.chunk * self.chunk
        if self.capacity < 14 * self.fixed:
            raise Skip(f"{self.capacity // MIB} MiB of GPU memory, as far as host memory allows, do not hold 12 contexts and a task")
        report.figure("GPU memory left to the tasks", self.capacity / GIB, "GiB")
        ballast = self.machine.start([sys.executable, "-B", WORKLOADS / "ballast.py", self.capacity + context], name="ballast")
        report.figure("ballast", int(ballast.wait_for("held", LOAD_S).split()[1]) / GIB, "GiB")

    def program(self, task: sets.Task, turn: str, *options: str, lock: Path = Path("/dev/null")) -> Program:
        """Starts a task's program."""
        command = [sys.executable, "-B", WORKLOADS / "periodic.py", "--backend", self.backend, "--model", self.kind(task), "--turn", turn]
        command += ["--lock", lock]
        if turn == "rtswap":
            return self.machine.task(command, *options, name=task.name, **self.python)
        return self.machine.start(command, name=f"{turn}-{task.name}")

    def profile(self, tasks: List[sets.Task]) -> Dict[str, float]:
        """The WCET of each task, in ms; equal ones are run once."""
        found = self.say(PROFILE_S, "wcet.py", self.backend, PROFILED, *dict.fromkeys(map(self.kind, tasks)))
        return {task.name: found[self.kind(task)] * WCET_FACTOR + WCET_MORE_MS for task in tasks}

    def kind(self, task: sets.Task) -> str:
        """What its program is given. It fills all that the task declares, or there would be less to move."""
        return f"{task.model}:{task.resolution}:{task.footprint - self.fixed}"

    def factor(self, tasks: List[sets.Task], wcets: Dict[str, float], least: float) -> float:
        """The least factor of all periods that the admission test takes, from `least` on."""
        path = self.machine.scratch / "taskset.toml"
        # The daemon adds its dispatch latency, and may see a chunk less.
        later = {name: wcet + 0.3 for name, wcet in wcets.items()}
        factor = least
        for _ in range(STEPS):
            text = sets.task_set(tasks, later, self.capacity - 2 * self.chunk, self.chunk, self.costs, factor)
            path.write_text(text)
            plan = self.machine.run([self.machine.binary("rtswapctl"), "plan", path, "--json"], LOAD_S, name="plan")
            if plan.code == 0:
                return factor
            if plan.code != 1:
                raise ProgramError(f"rtswapctl plan: {plan.stderr}")
            factor *= STEP
        raise ProgramError(f"no periods are long enough: {plan.stdout[-500:]}")


def host_available() -> int:
    """Host memory that can be had, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def load(programs: Dict[str, Program]) -> None:
    """A context for all at once, then one model after the other."""
    for program in programs.values():
        program.wait_for("ready", READY_S)
        program.say("begin")
    for program in programs.values():
        program.wait_for("begun", READY_S)
    for program in programs.values():
        program.say("load")
        program.wait_for("loaded", LOAD_S)


def offsets_ms(tasks: List[sets.Task]) -> List[float]:
    """When the first jobs are released: spread over the periods."""
    return [500 + task.period_ms * place / len(tasks) for place, task in enumerate(tasks)]


def due(tasks: List[sets.Task], seconds: float) -> int:
    """Whole periods in a run, of all tasks together."""
    return sum(max(0, int((seconds * 1e3 - offset) // task.period_ms)) for task, offset in zip(tasks, offsets_ms(tasks)))


def release(programs: Dict[str, Program], tasks: List[sets.Task], seconds: float) -> None:
    """Lets all run."""
    for task, offset_ms in zip(tasks, offsets_ms(tasks)):
        programs[task.name].say(f"run {seconds} {task.period_ms:.3f} {offset_ms:.3f}")


def result(task: sets.Task, line: str) -> Dict[str, Any]:
    """What a program says at the end of its run."""
    row = dict(json.loads(line))
    row["of_deadline"] = [response / task.period_ms for response in row["responses_ms"]]
    return row


def run_all(programs: Dict[str, Program], tasks: List[sets.Task], seconds: float) -> Dict[str, Dict[str, Any]]:
    """Runs them; what each says. They stay."""
    release(programs, tasks, seconds)
    return {task.name: result(task, programs[task.name].wait_for("{", seconds + LOAD_S)) for task in tasks}


def under_rtswap(stage: Stage, tasks: List[sets.Task], wcets: Dict[str, float], seconds: float) -> Dict[str, Dict[str, Any]]:
    """Registered as realtime tasks."""
    table = {"memory": stage.capacity, "reserve": 0, "best_effort_reserve": 0, "chunk": stage.chunk, "swap_cost": stage.costs.tables()}
    settings = f"probes = false\nidle_gap_us = {IDLE_GAP_US}"
    with stage.machine.daemon(settings, uuid=stage.gpu.uuid, **table) as daemon:
        programs = {}
        for task in tasks:
            declared = ["--period", f"{task.period_ms:.3f}ms", "--wcet", f"{wcets[task.name]:.3f}ms"]
            declared += ["--footprint", str(task.footprint), "--swappable", str(task.swappable)]
            programs[task.name] = stage.program(task, "rtswap", *declared)
        load(programs)
        results = run_all(programs, tasks, seconds)
        seen = {task["name"]: task for task in daemon.status()["tasks"]}
        for name, program in programs.items():
            row = seen[name]
            results[name].update(
                {"class": row["class"], "volume_bytes": row["swap_volume_bytes"], "violations": row["violations"]},
                moved_bytes=row["swap_out_bytes_total"] + row["swap_in_bytes_total"],
                swapping_ms_of_a_job=(row["swap_out_us_total"] + row["swap_in_us_total"]) / 1e3 / max(row["jobs"], 1),
                missed_by_daemon=row["deadline_misses"],
            )
            program.finish(LOAD_S)
    return results


def with_lock(programs: Dict[str, Program], tasks: List[sets.Task], seconds: float) -> Dict[str, Dict[str, Any]]:
    """A lock around each job, and only its holder's memory on the GPU."""
    load(programs)
    return run_all(programs, tasks, seconds)


def with_checkpoints(
    helper: Program, programs: Dict[str, Program], tasks: List[sets.Task], seconds: float
) -> Dict[str, Dict[str, Any]]:
    """The driver suspends all processes but the one whose turn it is; they load with the lock before."""
    said = helper.line(LOAD_S)
    if said != "able":
        raise Skip(f"the driver cannot suspend processes: {said}")
    load(programs)
    turn = threading.Lock()
    results: Dict[str, Dict[str, Any]] = {}
    errors: List[Exception] = []

    def ask(word: str, program: Program) -> None:
        helper.say(f"{word} {program.pid}")
        answer = helper.line(LOAD_S)
        if answer != "ok":
            raise ProgramError(f"{word}: {answer}")

    def serve(task: sets.Task) -> None:
        program = programs[task.name]
        try:
            while task.name not in results:
                line = program.line(seconds + LOAD_S)
                if line.startswith("{"):
                    results[task.name] = result(task, line)
                elif line == "want":
                    with turn:
                        ask("resume", program)
                        program.say("go")
                        program.wait_for("done", LOAD_S)
                        ask("suspend", program)
                    program.say("go")
        except Exception as error:  # noqa: BLE001: raised again where the part can tell it.
            errors.append(error)

    for task in tasks:
        programs[task.name].say("ask")
        programs[task.name].wait_for("asking", LOAD_S)
        ask("suspend", programs[task.name])
    threads = [threading.Thread(target=serve, args=(task,), daemon=True) for task in tasks]
    release(programs, tasks, seconds)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 2 * LOAD_S)
    if errors:
        raise errors[0]
    if len(results) < len(tasks):
        raise ProgramError(f"no end of {', '.join(task.name for task in tasks if task.name not in results)}")
    return results


def tell(stage: Stage, which: str, how: str, results: Dict[str, Dict[str, Any]], least: Optional[float]) -> None:
    """The figures of a run, ours with bounds: then `least` is of its jobs. All times go into a file beside the log."""
    report, found, ours = stage.report, measured.summary(results), least is not None
    name = f"{which}, {how}"
    report.figure(f"{name}: jobs", found["jobs"], "jobs", least=least)
    # The simulated GPU runs on a host that may stand still: there a late job is nobody's fault.
    report.figure(f"{name}: deadline misses", found["misses"], "jobs", most=0 if ours and not stage.machine.simulated else None)
    report.figure(f"{name}: wrong results", found["wrong"], "jobs", most=0)
    for key, value in found["of_deadline"].items():
        report.figure(f"{name}: response {key}", round(value, 4), "of the deadline")
    report.figure(f"{name}: longest turn", round(found["spread"], 3), "times the median, worst task")
    if ours:
        swapped = sum(row["moved_bytes"] for row in results.values())
        report.figure(f"{name}: moved", swapped / GIB, "GiB", least=0.001)
        realtime = sum(row["class"] == "realtime" for row in results.values())
        report.figure(f"{name}: realtime", realtime, "tasks", least=len(results))
    rows = {}
    for task, row in results.items():
        rows[task] = {key: value for key, value in row.items() if not key.endswith("_ms") and key != "of_deadline"}
        rows[task]["response_cdf_ms"] = measured.cdf(row["responses_ms"])
        rows[task]["held_cdf_ms"] = measured.cdf(row["held_ms"])
    path = stage.machine.logs / f"{which}-{how}.json".replace(" ", "-")
    path.write_text(json.dumps(rows, indent=1) + "\n")


def measure(report: Report, machine: Machine) -> None:
    stage = Stage(report, machine)
    stage.limit_memory()
    light = sets.scaled(sets.TABLE_4, stage.capacity, stage.fixed)
    heavy = sets.scaled(sets.HEAVY, stage.capacity, stage.fixed)
    # Before anything else runs beside it.
    wcets = stage.profile([*light, *heavy])
    chosen: Dict[str, List[sets.Task]] = {}
    # Table IV has its deadlines; the heavier set has the shortest periods that are admitted here.
    for which, tasks, least in (("table 4", light, 1.0), ("heavier", heavy, 0.1)):
        factor = stage.factor(tasks, wcets, least)
        report.figure(f"{which}: overflow", sets.overflow(tasks, stage.capacity), "%")
        bound = 1.0 if which == "table 4" and not machine.simulated else None
        report.figure(f"{which}: periods", round(factor, 3), "times the paper's", most=bound)
        chosen[which] = [task._replace(period_ms=task.period_ms * factor) for task in tasks]

    lock = machine.scratch / "turn.lock"
    waiting: Dict[Tuple[str, str], Dict[str, Program]] = {}

    def programs(which: str, how: str) -> Dict[str, Program]:
        """Of a run with the lock."""
        if (which, how) not in waiting:
            turn = "memory-saver" if how == "memory saver" else "lock"
            waiting[which, how] = {task.name: stage.program(task, turn, lock=lock) for task in chosen[which]}
        return waiting[which, how]

    def rtswap(which: str, how: str, seconds: float) -> Dict[str, Dict[str, Any]]:
        return under_rtswap(stage, chosen[which], wcets, seconds)

    def locked(which: str, how: str, seconds: float) -> Dict[str, Dict[str, Any]]:
        return with_lock(programs(which, how), chosen[which], seconds)

    def suspended(which: str, how: str, seconds: float) -> Dict[str, Dict[str, Any]]:
        helper = machine.start([sys.executable, "-B", WORKLOADS / "checkpoint.py"], name="checkpoint")
        return with_checkpoints(helper, programs(which, how), chosen[which], seconds)

    def saved(which: str, how: str, seconds: float) -> Dict[str, Dict[str, Any]]:
        if not common.has("torch_memory_saver"):
            raise Skip("there is no torch_memory_saver")
        return with_lock(programs(which, how), chosen[which], seconds)

    runs: List[Tuple[str, str, Callable[[str, str, float], Dict[str, Dict[str, Any]]]]] = [
        ("table 4", "rtswap", rtswap),
        ("table 4", "lock", locked),
        ("heavier", "rtswap", rtswap),
        ("heavier", "lock", locked),
        ("table 4", "driver checkpoint", suspended),
        ("table 4", "memory saver", saved),
    ]
    # Their programs import while another run loads its models, and touch no GPU until they are told to.
    ahead = {runs[0][:2]: runs[1][:2], runs[1][:2]: runs[3][:2], runs[3][:2]: runs[4][:2]}
    # What the last run took besides, for each task; nothing is known before the first.
    around_s = 0.0
    for which, how, run in runs:
        # The simulated one shows only that it works.
        seconds = RUN_S[which] * (0.3 if machine.simulated else 1.0)
        start, needed = time.monotonic(), seconds + around_s * len(chosen[which])
        if start + needed > stage.end:
            left = max(0.0, stage.end - start)
            report.note(f"{which}, {how}: not run: it takes about {needed:.0f} s, and {left:.0f} s were left; this part alone has more")
            continue
        if (which, how) in ahead:
            programs(*ahead[which, how])
        try:
            results = run(which, how, seconds)
        except (ProgramError, Skip) as error:
            if run is rtswap:
                raise
            report.note(f"{which}, {how}: does not run here: {str(error).strip().splitlines()[-1][-200:]}")
            continue
        finally:
            # Other runs' contexts need the room.
            end_all(waiting.get((which, how), {}))
        around_s = max(0.0, time.monotonic() - start - seconds) / len(results)
        # A host that stood still while something was measured has made periods that are too long for more than one.
        least = 1 if machine.simulated else max(len(results), DONE * due(chosen[which], seconds))
        tell(stage, which, how, results, least if run is rtswap else None)
    report.note("a response is from release to completion, a turn the time that the GPU is a job's, moving memory included but under rtswap")
    report.note("each task's distributions, and what rtswap takes to swap for a job, are in case_study/*.json")
    if machine.simulated:
        report.note("on the simulated GPU: this shows that the part works, and says nothing of any card")


def end_all(programs: Dict[str, Program]) -> None:
    """Their memory is needed."""
    for program in programs.values():
        program.kill()


if __name__ == "__main__":
    run_part("case_study", measure)
