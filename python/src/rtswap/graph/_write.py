"""Graph files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

from ._record import Kernel, Memory


def document(name: str, memories: List[Memory], kernels: List[Kernel]) -> Dict[str, Any]:
    """A graph as its file has it: only memory that a kernel uses, numbered in the order of use."""
    numbers: Dict[int, int] = {}
    users: Dict[int, int] = {}
    for kernel in kernels:
        for number in kernel.inputs + kernel.updates + kernel.outputs:
            if memories[number].nbytes:
                numbers.setdefault(number, len(numbers))
                users[number] = users.get(number, 0) + 1

    def tensor(number: int) -> Dict[str, Any]:
        memory = memories[number]
        is_made = memory.kind in ("activation", "gradient")
        kind = "scratch" if is_made and users[number] == 1 else memory.kind
        known = {"name": memory.name} if memory.name else {}
        return {**known, "kind": kind.replace(" ", "_"), "bytes": memory.nbytes}

    def operator(kernel: Kernel) -> Dict[str, Any]:
        lists = {"inputs": kernel.inputs, "outputs": kernel.outputs, "updates": kernel.updates}
        known = {
            key: [numbers[number] for number in value if number in numbers]
            for key, value in lists.items()
        }
        known = {key: value for key, value in known.items() if value}
        return {"name": kernel.name, **known, "flops": kernel.flops, "bytes": kernel.bytes}

    return {
        "version": 1,
        "name": name,
        "tensors": [tensor(number) for number in numbers],
        "operators": [operator(kernel) for kernel in kernels],
    }


def text(graph: Dict[str, Any]) -> str:
    """One line for each tensor and operator: the same for the same graph, whatever wrote it."""
    lines = ["{", f'"version": {graph["version"]},', f'"name": {json.dumps(graph["name"])},']
    for key in ("tensors", "operators"):
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in graph[key])
        lines.append(f'"{key}": [\n{rows}\n]' + ("," if key == "tensors" else ""))
    return "\n".join(lines) + "\n}\n"


def write(path: Path, graph: Dict[str, Any]) -> None:
    """Writes a graph; compressed if the file's name ends in ``.gz``."""
    data = text(graph).encode()
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
