#!/usr/bin/env python3
"""`wcet.py BACKEND JOBS MODEL:RESOLUTION:BYTES...`: the longest of so many jobs of each model, alone, in ms, as JSON."""

from __future__ import annotations

import json
import sys
import time

import with_models


def main() -> None:
    """One model after the other."""
    backend, jobs, *models = sys.argv[1:]
    longest = {}
    for text in models:
        model = with_models.make(backend, *with_models.parse(text))
        model.begin()
        model.load()
        times = []
        for _ in range(int(jobs)):
            start = time.monotonic()
            model.job()
            times.append((time.monotonic() - start) * 1e3)
        longest[text] = max(times)
        model.unload()
    print(json.dumps(longest))


if __name__ == "__main__":
    main()
