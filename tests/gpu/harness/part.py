"""A part's frame: it measures, and its report is written however it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from .machine import Machine

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
EXIT_CODES = {PASSED: 0, FAILED: 1, SKIPPED: 77}


class Skip(Exception):
    """This part cannot run here; the text says what it needs."""


class Report:
    """What a part has to say. It passes unless a bound is not met or it says that it failed."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.figures: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.failures: List[str] = []
        self._end = time.monotonic() + float(os.environ.get("RTSWAP_GPU_LIMIT_S", "inf"))

    def left_s(self) -> float:
        """How long the part may still take: its limit, or less where others need the time; without end if run by hand."""
        return max(0.0, self._end - time.monotonic())

    def figure(
        self, name: str, value: Any, unit: str, least: Optional[float] = None, most: Optional[float] = None
    ) -> bool:
        """Adds a figure; whether it keeps its bounds, which decides the outcome."""
        row: Dict[str, Any] = {"name": name, "value": value, "unit": unit}
        met = True
        if least is not None or most is not None:
            low = [f"at least {least:g}"] if least is not None else []
            high = [f"at most {most:g}"] if most is not None else []
            met = (least is None or value >= least) and (most is None or value <= most)
            row.update(bound=" and ".join(low + high), met=met)
        self.figures.append(row)
        print(f"{name}: {value} {unit}" + ("" if met else f", but {row['bound']} is asked for"), flush=True)
        if not met:
            self.failures.append(f"{name}: {value} {unit}, {row['bound']} is asked for")
        return met

    def note(self, text: str) -> None:
        """Adds a remark."""
        self.notes.append(text)
        print(text, flush=True)

    def fail(self, why: str) -> None:
        """Makes the part fail; it may go on."""
        self.failures.append(why)
        print(f"failed: {why}", flush=True)

    def as_json(self, skipped: Optional[str]) -> Dict[str, Any]:
        """The contract's form."""
        outcome = FAILED if self.failures else SKIPPED if skipped else PASSED
        why = "; ".join(self.failures) or skipped or ""
        return {"part": self.part, "outcome": outcome, "why": why, "figures": self.figures, "notes": self.notes}


def write_result(out: Path, result: Dict[str, Any]) -> None:
    """Writes NAME.json, whole or not at all."""
    path = out / f"{result['part']}.json"
    partial = path.with_suffix(".json.part")
    partial.write_text(json.dumps(result, indent=2) + "\n")
    partial.replace(path)


class Terminated(BaseException):
    """The kit says that the time is over."""


def _terminate(*_: object) -> None:
    raise Terminated


def run_part(name: str, measure: Callable[[Report, Machine], None]) -> None:
    """Runs `measure` and ends this process by the contract. What was measured before a failure is kept."""
    signal.signal(signal.SIGTERM, _terminate)
    report, skipped = Report(name), None
    out = Path(os.environ.get("RTSWAP_GPU_OUT") or tempfile.mkdtemp(prefix="rtswap-gpu-")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with Machine.of_environment(out / name) as machine:
            measure(report, machine)
    except Skip as skip:
        skipped = str(skip)
        print(f"skipped: {skipped}", flush=True)
    except Terminated:
        report.fail("its time was over")
    except Exception as error:  # noqa: BLE001: whatever it is, it is this part's result.
        traceback.print_exc()
        report.fail(f"{type(error).__name__}: {error}")
    result = report.as_json(skipped)
    write_result(out, result)
    sys.exit(EXIT_CODES[result["outcome"]])
