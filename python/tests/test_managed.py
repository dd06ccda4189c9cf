"""With rtswap itself, on the simulated GPU: `cargo xtask python` builds it and says where it is."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator

import pytest

MIB = 1 << 20
BOUND_S = 60
JOBS = 20

# What a library on CUDA does, as far as rtswap sees it.
PROGRAM = """
    import ctypes, json, sys
    import rtswap

    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        assert status == 0, (name, status)

    call("cuInit", 0)
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)

    class Array:
        def __init__(self, size):
            address = ctypes.c_uint64()
            call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            self.address, self.size = address.value, size
            self.__cuda_array_interface__ = dict(data=(self.address, False), shape=(size,), typestr="|u1", version=3)
        def fill(self, byte):
            call("cuMemsetD8Async", ctypes.c_uint64(self.address), byte, ctypes.c_size_t(self.size), None)
        def first(self):
            byte = ctypes.c_ubyte()
            call("cuMemcpyDtoH_v2", ctypes.byref(byte), ctypes.c_uint64(self.address), ctypes.c_size_t(1))
            return byte.value
"""


class Machine:
    def __init__(self, build: pathlib.Path, folder: pathlib.Path) -> None:
        self.build, self.folder = build, folder
        run, simgpu = folder / "run", folder / "simgpu"
        run.mkdir()
        simgpu.mkdir()
        fast = {f"SIMGPU_{engine}_GIB_PER_S": "8.0" for engine in ("D2H", "H2D", "COMPUTE")}
        self.environment = {
            **os.environ,
            **fast,
            "SIMGPU_MEMORY": "128MiB",
            "SIMGPU_CONTEXT_BYTES": "2MiB",
            "SIMGPU_DIR": str(simgpu),
            "RTSWAP_RUNTIME_DIR": str(run),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def program(self, name: str) -> str:
        return str(self.build / name)

    def serve(self) -> subprocess.Popen[bytes]:
        command = [self.program("dnn"), "--info"]
        info = subprocess.run(command, env=self.environment, capture_output=True, check=True, timeout=BOUND_S)
        uuid = json.loads(info.stdout)["gpus"][0]["uuid"]
        config = self.folder / "rtswapd.toml"
        config.write_text(f'version = 1\n[daemon]\nprobes = false\n[[gpu]]\nuuid = "{uuid}"\nmemory = "96MiB"\nchunk = "2MiB"\n')
        log = self.folder / "rtswapd.log"
        with log.open("wb") as end:
            command = [self.program("rtswapd"), "--config", str(config), "--bus", "none"]
            daemon = subprocess.Popen(command, env=self.environment, stdout=end, stderr=end)
        last = time.monotonic() + BOUND_S
        while not (self.folder / "run" / "control.sock").exists():
            assert daemon.poll() is None and time.monotonic() < last, log.read_text()
            time.sleep(0.02)
        return daemon

    def run(self, code: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        program = textwrap.dedent(PROGRAM) + textwrap.dedent(code)
        rtswapctl = self.program("rtswapctl")
        command = [rtswapctl, "run", *options, "--", sys.executable, "-c", program, rtswapctl]
        done = subprocess.run(
            command, env={**self.environment, **environment}, capture_output=True, text=True, timeout=BOUND_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return done


@pytest.fixture
def machine() -> Iterator[Machine]:
    build = os.environ.get("BUILD")
    if build is None:
        pytest.skip("BUILD does not say where rtswap's programs are: `cargo xtask python` does")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        machine = Machine(pathlib.Path(build), pathlib.Path(folder))
        daemon = machine.serve()
        try:
            yield machine
        finally:
            daemon.terminate()
            daemon.wait(BOUND_S)


def test_the_daemon_counts_the_jobs_that_a_task_runs(machine: Machine) -> None:
    code = f"""
        array = Array(16 << 20)
        array.fill(1)

        @rtswap.task(period="40ms")
        def work():
            array.fill(7)

        stats = work.run(jobs={JOBS})
        assert array.first() == 7
        print(json.dumps([stats.jobs, rtswap.status(rtswapctl=sys.argv[1])]))
    """
    declared = ["--period", "40ms", "--wcet", "20ms", "--footprint", "24MiB", "--swappable", "16MiB"]
    jobs, status = json.loads(machine.run(code, "--name", "python", *declared).stdout)
    task = status["tasks"][0]
    assert (task["name"], task["class"]) == ("python", "realtime")
    # Loading, and the copy after, are jobs that it did not declare; of the last end the daemon may not have read yet.
    assert JOBS <= task["jobs"] <= JOBS + 6
    assert jobs == JOBS


def test_what_is_read_only_is_copied_out_once_until_it_is_gone(machine: Machine) -> None:
    code = """
        weights, state = Array(16 << 20), Array(4 << 20)

        def work(what):
            print("phase", what, file=sys.stderr, flush=True)
            for turn in range(3):
                with rtswap.job():
                    state.fill(turn)
                    assert state.first() == turn

        weights.fill(5)
        work("plain")
        assert rtswap.read_only({"w": [weights]})["w"][0] is weights
        work("hinted")
        # Undeclared it could be over before its memory is taken away.
        with rtswap.job():
            assert weights.first() == 5
        del weights
        work("gone")
    """
    # The agent swaps everything out and in before each call.
    err = machine.run(code, "--name", "python", RTSWAP_TORTURE="every-call", RTSWAP_LOG="debug").stderr
    phases = {}
    for part in re.split(r"^phase ", err, flags=re.MULTILINE)[1:]:
        found = re.findall(r"torture: (\d+) bytes out and in, (\d+) of them copied out", part)
        phases[part.split()[0]] = [(int(left), int(copied)) for left, copied in found]
    everything = 20 * MIB
    assert phases["plain"][-1] == (everything, everything)
    # Within a phase the first may have begun before it.
    assert {copied for _, copied in phases["hinted"][2:]} == {everything - 16 * MIB}
    assert {left for left, _ in phases["hinted"]} == {everything}
    assert {copied for _, copied in phases["gone"][1:]} == {everything}


def test_a_forked_child_has_no_jobs_and_does_not_end_its_parents(machine: Machine) -> None:
    code = """
        import os
        array = Array(4 << 20)
        with rtswap.job():
            array.fill(1)
            child = os.fork()
            if child == 0:
                with rtswap.job():
                    rtswap.read_only(array)
                del array
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            array.fill(3)
        with rtswap.job():
            assert array.first() == 3
        print(rtswap.status(rtswapctl=sys.argv[1])["tasks"][0]["phase"])
    """
    assert machine.run(code, "--name", "python").stdout in ("idle\n", "running\n")
