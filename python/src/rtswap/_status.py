"""What the daemon says, by ``rtswapctl status --json``: the one road to it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any


class StatusError(RuntimeError):
    """There is no status. ``exit_code`` is that of ``rtswapctl``: 3 no daemon, 4 denied; None if it did not end."""

    def __init__(self, text: str, exit_code: int | None = None) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def status(*, rtswapctl: str | os.PathLike[str] = "rtswapctl", timeout: float = 10.0) -> dict[str, Any]:
    """The daemon's GPUs, tasks and processes, as ``rtswapctl status --json`` prints them (``version`` 1).

    ``rtswapctl`` is the program, ``timeout`` in seconds. Whose daemon is asked, ``RTSWAP_RUNTIME_DIR`` says, as for
    ``rtswapctl``. Raises :class:`StatusError` where there is no program, no daemon, or no answer in time. It starts a
    process: not for the inside of a job.
    """
    command = [os.fspath(rtswapctl), "status", "--json"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise StatusError(
            f"there is no {command[0]}: install rtswap, or name the program with status(rtswapctl=…)"
        ) from None
    except OSError as error:
        raise StatusError(f"cannot start {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise StatusError(f"{command[0]} status gave no answer within {timeout:g} s") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise StatusError(said or f"{command[0]} ended with {done.returncode}", done.returncode)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise StatusError(f"{command[0]} status --json printed no JSON object: is it rtswap's?", done.returncode)
    return answer
