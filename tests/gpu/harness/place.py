"""Where and on what the parts ran."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional


def describe(bundle: Path, simulated: bool, environment: Dict[str, str]) -> Dict[str, Any]:
    """Date, commit, GPU, driver, kernel, torch; what cannot be had is null."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "kind": "simgpu" if simulated else "real",
        "commit": _commit(bundle),
        "gpus": _gpus(bundle, environment),
        "driver": None if simulated else _driver(),
        "kernel": platform.release(),
        "glibc": platform.libc_ver()[1] or None,
        "processors": os.cpu_count(),
        "root": os.geteuid() == 0,
        "python": platform.python_version(),
        "torch": _version("torch"),
    }


def _said(command: list, environment: Optional[Dict[str, str]] = None) -> Optional[str]:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _commit(bundle: Path) -> Optional[str]:
    written = bundle / "COMMIT"
    if written.is_file():
        return written.read_text().strip()
    return _said(["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"])


def _gpus(bundle: Path, environment: Dict[str, str]) -> Optional[list]:
    said = _said([str(bundle / "dnn"), "--info"], environment)
    return json.loads(said)["gpus"] if said else None


def _driver() -> Optional[str]:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return _said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"])
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else text.splitlines()[0]


def _version(package: str) -> Optional[str]:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
