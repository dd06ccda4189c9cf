"""What the tests share: CUDA calls that must succeed, programs beside us, waiting."""

import os
import pathlib
import subprocess
import time

from cuda.bindings import driver as cuda

MIB = 1 << 20
# Device memory is handed out in pieces of this size.
GRANULE = 2 * MIB
CONTEXT_BYTES = 2 * MIB
PATIENCE_S = 20


def built(name):
    """A program or library of this build."""
    return pathlib.Path(os.environ["BUILD"]) / name


def done(result):
    """What a call gave besides CUDA_SUCCESS: nothing, a value, or a tuple."""
    code, *values = result
    assert code == cuda.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else tuple(values) or None


class Context:
    """The primary context of GPU 0, current as long as the block lasts."""

    def __enter__(self):
        done(cuda.cuInit(0))
        self.device = done(cuda.cuDeviceGet(0))
        done(cuda.cuCtxSetCurrent(done(cuda.cuDevicePrimaryCtxRetain(self.device))))
        return self.device

    def __exit__(self, *_):
        done(cuda.cuCtxSetCurrent(cuda.CUcontext(0)))
        done(cuda.cuDevicePrimaryCtxRelease(self.device))


def used_bytes():
    """What the driver, not NVML, says is used of the current context's GPU."""
    free, total = done(cuda.cuMemGetInfo())
    return total - free


class Program:
    """A dnn beside us, ended with the block."""

    def __init__(self, *options):
        command = [built("dnn"), *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)
        self.pid = self.process.pid

    @classmethod
    def holding(cls, memory):
        """One that has done its work, holds its memory and does no more."""
        program = cls("--memory", memory, "--jobs", "1", "--period", "300ms", "--hold", "--json")
        line = program.process.stdout.readline()
        assert '"checksum_errors":0' in line, line or program.process.stderr.read()
        return program

    @classmethod
    def computing(cls, memory):
        """One that computes nearly all the time."""
        program = cls("--memory", memory, "--duration", "60s", "--period", "100ms", "--work", "4", "--progress")
        line = program.process.stderr.readline()
        assert line.startswith("job"), line
        return program

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def wait_until(what, is_so):
    """Polls until it is so, with a bound."""
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
