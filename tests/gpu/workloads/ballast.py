#!/usr/bin/env python3
"""`ballast.py BYTES`: leaves so much of the GPU free, by plain allocations, until its input ends; says `held BYTES`.

Never managed memory: beyond what is free that can hang a card.
"""

from __future__ import annotations

import sys

from driver import Cuda, CudaError

PIECE = 64 << 20


def main() -> None:
    """Allocates, and waits."""
    wanted, held = int(sys.argv[1]), 0
    cuda = Cuda()
    size = PIECE
    while size >= 2 << 20:
        free, _ = cuda.info()
        if free - wanted < size:
            size //= 2
            continue
        try:
            cuda.alloc(size)
            held += size
        except CudaError:
            size //= 2
    print(f"held {held}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
