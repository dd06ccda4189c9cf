"""``python3 -m rtswap.graph``: records the graphs of the models that rtswap is measured with."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from rtswap.graph._pytorch import require_pytorch
from rtswap.graph._write import digest, write


def main() -> int:
    """The exit status: 0, or 1 if PyTorch is missing; argparse exits with 2 if the arguments are wrong."""
    try:
        require_pytorch()
    except ImportError as error:
        print(f"rtswap.graph: {error}", file=sys.stderr)
        return 1
    from rtswap.graph.models import MODELS

    parser = argparse.ArgumentParser(prog="python3 -m rtswap.graph", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all, or some of {', '.join(MODELS)}")
    parser.add_argument(
        "--batch", type=_positive, metavar="N", help="examples in an iteration; the graph is then called MODEL-bN"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path(), metavar="FOLDER", help="where MODEL.json.gz is written"
    )
    parser.add_argument("--hash", action="store_true", help="print the SHA-256 of each graph's text, and write nothing")
    options = parser.parse_args()
    for name in options.models:
        if name not in MODELS:
            near = difflib.get_close_matches(name, MODELS, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(MODELS)}"
            parser.error(f"no model is called {name}; {advice}")
    if not options.out.is_dir():
        parser.error(f"{options.out} is no folder: make it first")
    for model in options.models or MODELS:
        name = model if options.batch is None else f"{model}-b{options.batch}"
        graph = MODELS[model].record(name, options.batch or MODELS[model].batch)
        if options.hash:
            print(digest(graph), name)
            continue
        path = options.out / f"{name}.json.gz"
        write(path, graph)
        sizes = [tensor["bytes"] for tensor in graph["tensors"]]
        print(
            f"{path}: {len(graph['operators'])} operators, {len(sizes)} tensors of {len(set(sizes))} sizes, "
            f"{sum(sizes) / 1e9:.2f} GB, SHA-256 {digest(graph)}",
            flush=True,
        )
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of examples: 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
