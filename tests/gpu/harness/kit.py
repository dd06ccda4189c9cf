"""Runs parts one after the other, each within its own time, and collects what they write.

A part is parts/NAME.py with `LIMIT_S` (seconds, a literal), `RANK` (a literal; the smaller, the more telling and the
earlier) and a docstring whose first line says what it shows.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from . import descendants, place
from .machine import Machine, default_bundle, scratch_place
from .part import EXIT_CODES, FAILED, PASSED, write_result

PARTS = Path(__file__).resolve().parent.parent / "parts"
# All parts together, in seconds.
TOTAL_S = 540.0
# What a part that is told to end may take to write what it has.
LAST_WORDS_S = 5.0
# How long the kernel may take to end what is killed.
DEATH_S = 10.0


class Part(NamedTuple):
    """One part, as its file describes it."""

    name: str
    path: Path
    shows: str
    rank: int
    limit_s: float


def read_part(path: Path) -> Part:
    """Reads a part's file without running it."""
    tree = ast.parse(path.read_text(), str(path))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    shows = (ast.get_docstring(tree) or "").partition("\n")[0]
    try:
        return Part(path.stem, path, shows, constants["RANK"], float(constants["LIMIT_S"]))
    except KeyError as missing:
        raise SystemExit(f"{path} lacks {missing}") from None


def all_parts(folder: Path = PARTS) -> List[Part]:
    """All of them, the most telling first."""
    return sorted((read_part(path) for path in folder.glob("*.py")), key=lambda part: (part.rank, part.name))


def share(left_s: float, limits_s: List[float]) -> float:
    """What the first of the parts that wait may take: its limit, or its part of what is left where that is too little for
    all, so that one that hangs takes nothing from the others. What it does not use is theirs."""
    return limits_s[0] * max(0.0, min(1.0, left_s / sum(limits_s)))


def run_part(part: Part, environment: Dict[str, str], out: Path, limit_s: float) -> Dict[str, Any]:
    """Runs one within `limit_s`; its result. Nothing of it runs afterwards."""
    result = out / f"{part.name}.json"
    result.unlink(missing_ok=True)
    start = time.monotonic()
    over = False
    with open(out / f"{part.name}.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-B", str(part.path)],
            env={**environment, "RTSWAP_GPU_LIMIT_S": f"{limit_s:.3f}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            over = True
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(LAST_WORDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
    left = descendants.end_all(DEATH_S)
    took = time.monotonic() - start
    said = read_result(part, result, code)
    said["seconds"] = round(took, 1)
    if over:
        said.update(outcome=FAILED, why=f"its {limit_s:g} s were over; {said['why']}".rstrip("; "))
    if left:
        said.update(outcome=FAILED, why=f"processes {left} cannot be killed; {said['why']}".rstrip("; "))
    write_result(out, said)
    return said


def read_result(part: Part, path: Path, code: int) -> Dict[str, Any]:
    """What a part that ended with `code` wrote, as far as that fits together."""
    ended = f"killed by signal {-code}" if code < 0 else f"ended with {code}"
    failed = {"part": part.name, "outcome": FAILED, "figures": [], "notes": []}
    try:
        said = json.loads(path.read_text())
        outcome = said["outcome"]
        figures, _ = said["figures"], (said["part"], said["why"], said["notes"])
    except FileNotFoundError:
        return {**failed, "why": f"{ended} without a result: see {part.name}.log"}
    except (ValueError, KeyError, TypeError) as error:
        return {**failed, "why": f"{ended} with a result that cannot be read ({error})"}
    if EXIT_CODES.get(outcome) != code:
        said.update(outcome=FAILED, why=f"{ended} though it says {outcome}; {said['why']}")
    elif outcome == PASSED and any(figure.get("met") is False for figure in figures):
        said.update(outcome=FAILED, why="a bound is not met")
    return said


def table(results: List[Dict[str, Any]]) -> str:
    """For people: each part, and below it what it found."""
    width = max([len(figure["name"]) for result in results for figure in result["figures"]] + [24])
    lines = []
    for result in results:
        why = f": {result['why']}" if result["why"] else ""
        lines.append(f"{result['part']:14} {result['outcome'].upper():8} {result['seconds']:6.1f} s{why}")
        for figure in result["figures"]:
            value = figure["value"]
            shown = f"{value:.4g}" if isinstance(value, float) else str(value)
            bound = "" if "bound" not in figure else f"  ({figure['bound']})" + ("" if figure["met"] else "  NOT MET")
            lines.append(f"  {figure['name']:{width}} {shown:>12} {figure['unit']}{bound}")
        lines.extend(f"  {note}" for note in result["notes"])
    return "\n".join(lines)


def parse(arguments: List[str]) -> argparse.Namespace:
    """The command line."""
    parts = all_parts()
    listed = "\n".join(f"  {part.name:14} {part.shows} (at most {part.limit_s:g} s)" for part in parts)
    parser = argparse.ArgumentParser(
        "run.sh",
        description="Tries rtswap on this machine's GPU. Exit codes: 0 nothing failed, 1 something did, 2 bad input.",
        epilog=f"parts, in their order:\n{listed}\n\nTogether they have {TOTAL_S:g} s, each its share. `run.sh case_study`, as a second command, gives that part all of its time.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results and logs go [default: a new one in the temporary folder]")
    parser.add_argument("--simgpu", action="store_true", help="on the simulated GPU: what needs silicon is skipped")
    parser.add_argument("--bundle", type=Path, metavar="FOLDER", help="the programs [default: beside run.sh, else target/gpu-bundle]")
    parser.add_argument("part", nargs="*", help="only these [default: all]")
    options = parser.parse_args(arguments)
    unknown = set(options.part) - {part.name for part in parts}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in parts)}")
    options.parts = [part for part in parts if not options.part or part.name in options.part]
    options.bundle = (options.bundle or default_bundle()).resolve()
    if not (options.bundle / "rtswapd").is_file():
        parser.error(f"no rtswapd in {options.bundle}: make it by `cargo xtask gpu-bundle`, or name it by --bundle")
    return options


def main(arguments: List[str]) -> int:
    """Runs what was asked for; the exit code."""
    options = parse(arguments)
    out = (options.out or Path(tempfile.mkdtemp(prefix="rtswap-gpu-results-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    descendants.adopt()
    with Machine(options.bundle, options.simgpu, out / "kit") as machine:
        where = place.describe(options.bundle, options.simgpu, machine.environment())
    # What names no GPU is worth nothing to anybody who reads it later.
    if not where["gpus"]:
        print(f"run.sh: {options.bundle}/dnn finds no GPU here; --simgpu simulates one", file=sys.stderr)
        return 2
    end = time.monotonic() + TOTAL_S
    scratch = Path(tempfile.mkdtemp(prefix="rtswap-gpu-", dir=scratch_place(options.simgpu)))
    environment = {
        **os.environ,
        "RTSWAP_GPU_OUT": str(out),
        "RTSWAP_GPU_BUNDLE": str(options.bundle),
        "RTSWAP_GPU_KIND": where["kind"],
        # What a killed part leaves there goes with it.
        "TMPDIR": str(scratch),
    }
    waiting = [part.limit_s for part in options.parts]
    results: List[Dict[str, Any]] = []
    try:
        for part in options.parts:
            left = end - time.monotonic() - LAST_WORDS_S
            limit_s = share(left, waiting)
            waiting.pop(0)
            print(f"{part.name}: {part.shows} (at most {limit_s:.0f} s)", flush=True)
            if limit_s < 1:
                why = f"not run: the {TOTAL_S:g} s of all parts were over"
                result = {"part": part.name, "outcome": FAILED, "why": why, "figures": [], "notes": [], "seconds": 0.0}
                write_result(out, result)
            else:
                result = run_part(part, environment, out, limit_s)
            results.append(result)
            print(f"{part.name}: {result['outcome']}, {result['seconds']:g} s", flush=True)
            # After each, so that an end from outside keeps what there is.
            written = out / "result.json.part"
            written.write_text(json.dumps({"version": 1, **where, "parts": results}, indent=2) + "\n")
            written.replace(out / "result.json")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    gpu = where["gpus"][0]["name"]
    print(f"\n{gpu}, driver {where['driver']}, Linux {where['kernel']}, torch {where['torch']}, {where['date']}")
    print(table(results))
    print(f"\n{out / 'result.json'}")
    return 1 if any(result["outcome"] == FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
