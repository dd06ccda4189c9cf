"""The GPU, real or simulated, and a daemon of our own on it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .program import Finished, Program, ProgramError, clean_environment

MIB = 1 << 20
GIB = 1 << 30

AGENT = "librtswap_cuda.so"
DAEMON_STARTS_S = 20.0
ANSWERS_S = 10.0

# The simulated GPU of a part that names no other.
SIMGPU = {"memory": "96MiB", "context_bytes": "2MiB", "d2h_gib_per_s": 1.0, "h2d_gib_per_s": 1.0}


class Gpu(NamedTuple):
    """One GPU, as a CUDA program sees it."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


def scratch_place(simulated: bool) -> Optional[str]:
    """Where temporary folders go. Device memory of the simulated GPU is a file: in memory, where there is such a folder."""
    in_memory = simulated and "TMPDIR" not in os.environ and os.path.isdir("/dev/shm")
    return "/dev/shm" if in_memory else None


def default_bundle() -> Path:
    """Beside run.sh, else what `cargo xtask gpu-bundle` made."""
    here = Path(__file__).resolve().parent.parent
    beside = [here, here.parent.parent / "target" / "gpu-bundle"]
    return next((folder for folder in beside if (folder / "rtswapd").is_file()), beside[-1])


class Machine:
    """The GPU of one part, its folders and its environment. All of its processes end with it."""

    def __init__(self, bundle: Path, simulated: bool, logs: Path) -> None:
        self.bundle = bundle
        self.simulated = simulated
        """Whether there is no silicon: then times say nothing, and torch cannot compute."""
        self.logs = logs
        self._programs: List[Program] = []
        self._started = 0
        self.scratch = Path(tempfile.mkdtemp(prefix="rtswap-gpu-", dir=scratch_place(simulated)))
        self.runtime = self.scratch / "run"
        self.runtime.mkdir()
        logs.mkdir(parents=True, exist_ok=True)
        if simulated:
            (self.scratch / "gpu").mkdir()
            self.simulate(**SIMGPU)

    @classmethod
    def of_environment(cls, logs: Path) -> "Machine":
        """As the kit, or somebody who runs a part by hand, says it."""
        bundle = Path(os.environ.get("RTSWAP_GPU_BUNDLE") or default_bundle()).resolve()
        return cls(bundle, os.environ.get("RTSWAP_GPU_KIND", "real") == "simgpu", logs)

    def simulate(self, **keys: Any) -> None:
        """Sets keys of simgpu.toml for what is started from now on; nothing on a real GPU. Before the first program."""
        if self.simulated:
            text = "version = 1\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in {**SIMGPU, **keys}.items())
            (self.scratch / "simgpu.toml").write_text(text)

    def binary(self, name: str) -> Path:
        """A program or library of the bundle."""
        path = self.bundle / name
        if not path.exists():
            raise ProgramError(f"{path} is missing: build the bundle with `cargo xtask gpu-bundle`")
        return path

    def environment(self, agent: bool = False, **variables: str) -> Dict[str, str]:
        """What a program on this machine is given; `agent` preloads ours, without a registration."""
        environment = clean_environment()
        environment["RTSWAP_RUNTIME_DIR"] = str(self.runtime)
        if self.simulated:
            folders = [str(self.bundle / "simgpu"), environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
            environment["SIMGPU_DIR"] = str(self.scratch / "gpu")
            environment["SIMGPU_CONFIG"] = str(self.scratch / "simgpu.toml")
        if agent:
            environment["LD_PRELOAD"] = str(self.binary(AGENT))
        environment.update(variables)
        return environment

    def start(self, command: Sequence[Any], agent: bool = False, name: str = "", **variables: str) -> Program:
        """Starts a program; `name` is what its logs are called. It ends with the machine at the latest."""
        self._started += 1
        log = self.logs / f"{self._started:02}-{name or Path(str(command[0])).name}"
        program = Program(list(map(str, command)), self.environment(agent, **variables), log)
        self._programs.append(program)
        return program

    def run(self, command: Sequence[Any], limit_s: float, agent: bool = False, name: str = "", **variables: str) -> Finished:
        """Runs a program to its end; whether that was good is the caller's to judge."""
        return self.start(command, agent, name, **variables).finish(limit_s)

    def task(self, command: Sequence[Any], *options: str, name: str, **variables: str) -> Program:
        """Starts a program as a task of that name: `rtswapctl run --name NAME OPTIONS -- COMMAND`."""
        run = [self.binary("rtswapctl"), "run", "--name", name, "--agent", self.binary(AGENT), *options, "--"]
        return self.start([*run, *command], name=name, **variables)

    def gpus(self) -> List[Gpu]:
        """The GPUs of this machine."""
        finished = self.run([self.binary("dnn"), "--info"], ANSWERS_S * 3, name="info")
        if finished.code != 0:
            raise ProgramError(f"no GPU can be used: {finished.stderr.strip()}")
        return [Gpu(**row) for row in finished.json()["gpus"]]

    def gpu(self) -> Gpu:
        """The first of them."""
        gpus = self.gpus()
        if not gpus:
            raise ProgramError("this machine has no GPU")
        return gpus[0]

    def context_bytes(self, gpu: Gpu) -> int:
        """What the agent counts for a context (cuda-agent: 1/64 of the memory, at most 512 MiB)."""
        return min(gpu.memory_bytes // 64, 512 * MIB)

    def daemon(self, daemon: str = "probes = false", scheduler: str = "", **gpu: Any) -> "Daemon":
        """Starts rtswapd; `gpu` are keys of the [[gpu]] table, `daemon` and `scheduler` lines of those tables."""
        tables = [f"version = 1\n[daemon]\n{daemon}\n[scheduler]\n{scheduler}\n"]
        if gpu:
            costs = {key: gpu.pop(key) for key in ("swap_cost",) if key in gpu}
            lines = {"uuid": gpu.pop("uuid", None) or self.gpu().uuid, **gpu}
            tables.append("[[gpu]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in lines.items()))
            for direction, cost in costs.get("swap_cost", {}).items():
                keys = "".join(f"{key} = {_toml(value)}\n" for key, value in cost.items())
                tables.append(f"[gpu.swap_cost.{direction}]\n{keys}")
        return Daemon(self, "\n".join(tables))

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._programs):
            program.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Daemon:
    """A running rtswapd without a bus, with sockets and state in the machine's own folder."""

    def __init__(self, machine: Machine, toml: str) -> None:
        self.machine = machine
        config = machine.logs / "rtswapd.toml"
        config.write_text(toml)
        command = [machine.binary("rtswapd"), "--bus", "none", "--config", config, "--runtime-dir", machine.runtime]
        self.program = machine.start(command, name="rtswapd")
        end = time.monotonic() + DAEMON_STARTS_S
        while self._ask().code != 0:
            if not self.program.is_running():
                raise ProgramError(f"rtswapd ended: {self.program.stderr()[-2000:]}")
            if time.monotonic() > end:
                raise ProgramError(f"rtswapd does not serve in {DAEMON_STARTS_S:g} s: {self.program.stderr()[-2000:]}")
            time.sleep(0.05)

    def _ask(self) -> Finished:
        machine = self.machine
        log = machine.logs / "status"
        command = [str(machine.binary("rtswapctl")), "status", "--json"]
        return Program(command, machine.environment(), log).finish(ANSWERS_S)

    def status(self) -> Dict[str, Any]:
        """`rtswapctl status --json`."""
        finished = self._ask()
        if finished.code != 0:
            raise ProgramError(f"rtswapctl status: {finished.stderr.strip()}")
        return finished.json()

    def task(self, name: str) -> Optional[Dict[str, Any]]:
        """The task of that name, if there is one."""
        return next((task for task in self.status()["tasks"] if task["name"] == name), None)

    def stop(self) -> None:
        """Ends it as a service manager would."""
        if self.program.is_running():
            self.program.signal(signal.SIGTERM)
            finished = self.program.finish(ANSWERS_S)
            if finished.code != 0:
                raise ProgramError(f"rtswapd ended with {finished.code}: {finished.stderr[-2000:]}")

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            # What went wrong before is what has to be told.
            self.program.kill()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)
