#!/usr/bin/env python3
"""`costs.py CHUNK`: what the driver takes for chunks and for pinned copies, and what of the GPU is free, as JSON."""

from __future__ import annotations

import json
import sys

from driver import Cuda

MIB = 1 << 20


def main() -> None:
    """Measures with a little memory."""
    chunk = int(sys.argv[1])
    cuda = Cuda()
    free, total = cuda.info()
    made, gone = cuda.chunk_us(chunk, 24)
    out, into = cuda.gib_per_s(min(64 * MIB, free // 16), 12)
    print(json.dumps({"free": free, "total": total, "made_us": made, "gone_us": gone, "out_gib_per_s": out, "in_gib_per_s": into}))


if __name__ == "__main__":
    main()
