"""``python3 -m rtswap.graph MODEL… [-o FOLDER]``: records the graphs of models."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from rtswap.graph._write import text, write
from rtswap.graph.models import MODELS


def main() -> int:
    parser = argparse.ArgumentParser(prog="rtswap.graph", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("-o", "--out", type=Path, default=Path(), help="the folder of the files")
    parser.add_argument("--hash", action="store_true", help="print SHA-256 of the graphs, and write nothing")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"no model is called {unknown[0]}; there are {', '.join(MODELS)}")
    for name in options.models or MODELS:
        graph = MODELS[name](name)
        if options.hash:
            print(hashlib.sha256(text(graph).encode()).hexdigest(), name)
            continue
        path = options.out / f"{name}.json.gz"
        write(path, graph)
        print(f"{path}: {len(graph['operators'])} operators, {len(graph['tensors'])} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
