"""The file format of graphs: JSON, version 1, with one line for each tensor and each operator."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

from rtswap.graph._trace import GIVEN, Kernel, Storage

# A graph as its file has it.
Graph = dict[str, Any]


def document(name: str, storages: list[Storage], kernels: list[Kernel]) -> Graph:
    """The graph of these kernels. Its tensors are the storages that a kernel uses, in the order of their first use;
    those of 0 bytes are left out. What only one kernel uses, and no later iteration, is its scratch.
    """
    numbers: dict[int, int] = {}
    uses: dict[int, int] = {}
    for kernel in kernels:
        for storage in kernel.storages():
            if storages[storage].nbytes:
                numbers.setdefault(storage, len(numbers))
                uses[storage] = uses.get(storage, 0) + 1
    return {
        "version": 1,
        "name": name,
        "tensors": [_tensor(storages[storage], uses[storage]) for storage in numbers],
        "operators": [_operator(kernel, numbers) for kernel in kernels],
    }


def _tensor(storage: Storage, uses: int) -> dict[str, Any]:
    name = {"name": storage.name} if storage.name else {}
    is_scratch = storage.kind not in GIVEN and uses == 1
    return {**name, "kind": "scratch" if is_scratch else storage.kind, "bytes": storage.nbytes}


def _operator(kernel: Kernel, numbers: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": kernel.name}
    for key, storages in (("inputs", kernel.inputs), ("outputs", kernel.outputs), ("updates", kernel.updates)):
        tensors = [numbers[storage] for storage in storages if storage in numbers]
        if tensors:
            row[key] = tensors
    row["flops"] = kernel.flops
    row["bytes"] = kernel.nbytes
    if kernel.arithmetic:
        row["arithmetic"] = kernel.arithmetic
    if kernel.is_random:
        row["random"] = True
    return row


def text(graph: Graph) -> str:
    """The text of a graph's file, which depends on nothing but the graph."""
    tables = []
    for key in ("tensors", "operators"):
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in graph[key])
        tables.append(f'"{key}": [\n{rows}\n]')
    head = f'"version": {graph["version"]},\n"name": {json.dumps(graph["name"])}'
    return "{\n" + ",\n".join([head, *tables]) + "\n}\n"


def digest(graph: Graph) -> str:
    """SHA-256 of the text of a graph's file, in hexadecimal."""
    return hashlib.sha256(text(graph).encode()).hexdigest()


def write(path: str | os.PathLike[str], graph: Graph) -> None:
    """Writes a graph; compressed if the name of the file ends in ``.gz``. OSError where the file cannot be written."""
    path = Path(path)
    data = text(graph).encode()
    path.write_bytes(_compressed(data) if path.suffix == ".gz" else data)


def _compressed(data: bytes) -> bytes:
    # Neither the time nor a name, and the same header from every version of Python, which gzip.compress does not give.
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write(data)
    return packed.getvalue()
