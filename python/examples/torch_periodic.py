"""A PyTorch model that infers once each period, as a task of rtswap.

    rtswapctl run --name detect --period 100ms --wcet 30ms --footprint 2GiB --swappable 1500MiB \\
        -- python torch_periodic.py

Without rtswapctl it runs as well, alone and without a guarantee.
"""

from __future__ import annotations

import argparse

import torch

import rtswap


def model(device: str) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(24):
        layers += [torch.nn.Conv2d(256, 256, 3, padding=1), torch.nn.BatchNorm2d(256), torch.nn.ReLU(inplace=True)]
    return torch.nn.Sequential(*layers).to(device).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    # Loaded outside of jobs: until its first job a task is loading, and nobody waits for it.
    network = rtswap.read_only(model(options.device))
    frame = torch.randn(1, 256, 64, 64, device=options.device)

    @rtswap.task(period="100ms")
    def detect() -> float:
        with torch.inference_mode():
            # The job ends when the GPU is done with it, so nothing here has to synchronise.
            return float(network(frame).mean())

    detect()
    stats = detect.run(jobs=options.jobs)
    mean_ms = stats.total_response_ns / stats.jobs / 1e6
    print(
        f"{stats.jobs} jobs, {stats.deadline_misses} deadline misses, {stats.skipped} releases skipped, "
        f"response {mean_ms:.1f} ms mean, {stats.max_response_ns / 1e6:.1f} ms at most"
    )
    if rtswap.is_managed():
        for task in rtswap.status()["tasks"]:
            print(f"{task['name']}: {task['deadline_misses']} misses, {task['swap_in_bytes_total'] >> 20} MiB swapped in")


if __name__ == "__main__":
    main()
