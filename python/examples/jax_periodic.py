"""A JAX function that runs once each period, as a task of rtswap.

    XLA_PYTHON_CLIENT_PREALLOCATE=false rtswapctl run --name plan --period 50ms --wcet 10ms \\
        --footprint 2GiB --swappable 1500MiB -- python jax_periodic.py

Without preallocation off, JAX takes three quarters of the GPU at once, and all of it would be swapped.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp

import rtswap


@jax.jit  # type: ignore[misc, unused-ignore]
def step(weights: list[jax.Array], state: jax.Array) -> jax.Array:
    for layer in weights:
        state = jnp.tanh(state @ layer)
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100)
    options = parser.parse_args()

    keys = jax.random.split(jax.random.PRNGKey(0), 17)
    weights = rtswap.read_only([jax.random.normal(key, (4096, 4096)) / 64 for key in keys[1:]])
    state = jax.random.normal(keys[0], (64, 4096))
    # Compiled outside of jobs.
    step(weights, state).block_until_ready()

    @rtswap.task(period="50ms")
    def plan() -> jax.Array:
        # JAX goes on enqueueing after it has returned; the task waits for what it is given back.
        return step(weights, state)

    stats = plan.run(jobs=options.jobs)
    print(f"{stats.jobs} jobs, {stats.deadline_misses} deadline misses, {stats.skipped} releases skipped")


if __name__ == "__main__":
    main()
