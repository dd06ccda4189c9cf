"""Runs programs of a test in a Python of their own, bare or with a stub of the agent preloaded."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

BOUND_S = 30


@dataclass
class Outcome:
    """What a program printed, and which of the agent's functions it called, with (address, bytes) for hints."""

    out: str
    err: str
    calls: list[str]


class Programs:
    def __init__(self, stub: pathlib.Path) -> None:
        self._stub = stub

    def run(self, code: str, *, stub: bool, fails: bool = False, **environment: str) -> Outcome:
        """Runs it with warnings shown; an assertion on how it ends."""
        with tempfile.TemporaryFile() as calls:
            variables = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "RTSWAP_TASK")}
            variables |= {"PYTHONWARNINGS": "always", "PYTHONDONTWRITEBYTECODE": "1", **environment}
            if stub:
                variables |= {"LD_PRELOAD": str(self._stub), "STUB_FD": str(calls.fileno())}
            done = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(code)],
                env=variables,
                pass_fds=[calls.fileno()],
                capture_output=True,
                text=True,
                timeout=BOUND_S,
                check=False,
            )
            assert (done.returncode != 0) == fails, done.stdout + done.stderr
            calls.seek(0)
            lines = [line.decode() for line in calls.read().splitlines()]
        return Outcome(done.stdout, done.stderr, [line.removesuffix(" 0 0") for line in lines])


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    library = tmp_path_factory.mktemp("stub") / "libstub.so"
    source = pathlib.Path(__file__).with_name("stub.c")
    command = [os.environ.get("CC", "cc"), "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True, timeout=BOUND_S)
    yield Programs(library)
