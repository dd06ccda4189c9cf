"""A process whose every wait has a bound, and whose output is kept."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence


class ProgramError(Exception):
    """A program did not do as it should."""


class Finished(NamedTuple):
    """How a program ended."""

    code: int
    """Its exit status; that of a signal is negative."""
    stdout: str
    stderr: str

    def json(self) -> Any:
        """The last line of its output, as JSON."""
        lines = self.stdout.strip().splitlines()
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            raise ProgramError(f"no JSON at the end of: {self.stdout[-500:]}{self.stderr[-500:]}") from None


class Program:
    """A running program. Used as a context it is killed at the end of it."""

    def __init__(self, command: Sequence[str], environment: Dict[str, str], log: Path) -> None:
        """Starts it. Its output and its complaints also go to `log`.stdout and `log`.stderr."""
        self.name = log.name
        self._paths = {end: log.with_name(f"{log.name}.{end}") for end in ("stdout", "stderr")}
        with open(self._paths["stderr"], "wb") as stderr:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self.pid = self._process.pid
        self._lines: List[str] = []
        self._read = 0
        self._came = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        with open(self._paths["stdout"], "w") as kept, self._process.stdout:
            for line in self._process.stdout:
                text = line.decode(errors="replace").rstrip("\n")
                print(text, file=kept, flush=True)
                with self._came:
                    self._lines.append(text)
                    self._came.notify_all()
        with self._came:
            self._ended = True
            self._came.notify_all()

    def line(self, limit_s: float) -> str:
        """Its next line. An error where it ends before, or none comes in time."""
        end = time.monotonic() + limit_s
        with self._came:
            while self._read == len(self._lines):
                left = end - time.monotonic()
                if self._ended or left <= 0:
                    why = "ended" if self._ended else f"said nothing in {limit_s:g} s"
                    raise ProgramError(f"{self.name} {why}: {self.stderr()[-1000:]}")
                self._came.wait(left)
            self._read += 1
            return self._lines[self._read - 1]

    def wait_for(self, beginning: str, limit_s: float) -> str:
        """Its next line that begins so; those before are passed over."""
        end = time.monotonic() + limit_s
        while True:
            line = self.line(max(0.0, end - time.monotonic()))
            if line.startswith(beginning):
                return line

    def rows(self, limit_s: float) -> Iterator[Any]:
        """Its lines as JSON, each as it comes, until there are no more. An error where that is not so in time."""
        end = time.monotonic() + limit_s
        while True:
            with self._came:
                while self._read == len(self._lines) and not self._ended:
                    left = end - time.monotonic()
                    if left <= 0:
                        raise ProgramError(f"{self.name} did not end in {limit_s:g} s: {self.stderr()[-1000:]}")
                    self._came.wait(left)
                if self._read == len(self._lines):
                    return
                self._read += 1
                line = self._lines[self._read - 1]
            try:
                row = json.loads(line)
            except ValueError:
                raise ProgramError(f"{self.name} said {line[-500:]!r}, which is no JSON: {self.stderr()[-500:]}") from None
            yield row

    def say(self, line: str) -> None:
        """Writes a line to its input."""
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramError(f"{self.name} does not listen ({error}): {self.stderr()[-1000:]}") from None

    def close_input(self) -> None:
        """Ends its input."""
        try:
            self._process.stdin.close()
        except OSError:
            pass

    def stdout(self) -> str:
        """What it printed so far."""
        with self._came:
            return "".join(line + "\n" for line in self._lines)

    def stderr(self) -> str:
        """What it complained of so far."""
        return self._paths["stderr"].read_text(errors="replace")

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def finish(self, limit_s: float) -> Finished:
        """Waits for its end, its input closed; one that does not end is killed, which is an error."""
        self.close_input()
        try:
            code = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramError(f"{self.name} did not end in {limit_s:g} s: {self.stderr()[-1000:]}") from None
        # A child of it may hold its output open.
        self._reader.join(2)
        return Finished(code, self.stdout(), self.stderr())

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()
        self.close_input()
        self._reader.join(2)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def wait_until(what: str, limit_s: float, is_so, every_s: float = 0.02) -> None:
    """Polls until `is_so()`; an error names `what` where that never was."""
    end = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > end:
            raise ProgramError(f"not in {limit_s:g} s: {what}")
        time.sleep(every_s)


def clean_environment(environment: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """Our own environment without what steers rtswap or the simulated GPU."""
    ours = ("SIMGPU_", "RTSWAP_")
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if name != "LD_PRELOAD" and not name.startswith(ours)}
