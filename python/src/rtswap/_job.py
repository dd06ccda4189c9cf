"""Jobs: where one begins and ends."""

from __future__ import annotations

import re
from types import TracebackType

from rtswap import _abi

# As of a task.
_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)


class Job:
    """One activation of the task: the GPU work between begin and end. Made by :func:`job`."""

    __slots__ = ("_depth", "_name")

    def __init__(self, name: bytes | None = None) -> None:
        self._depth = 0
        self._name = name

    def __enter__(self) -> Job:
        agent = _abi.agent()
        if agent is None:
            _abi.warn_if_lost()
            return self
        try:
            if self._name is not None and agent.job_begin_named is not None:
                agent.job_begin_named(self._name)
            else:
                agent.job_begin()
            self._depth += 1
        except BaseException:
            # The call itself raises nothing: a signal's handler did, once the job had begun.
            agent.job_end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def __del__(self) -> None:
        # Where an interrupt came between the block and `__exit__`, nobody else ends the job.
        while self._depth:
            self._end()

    def _end(self) -> None:
        agent = _abi.agent()
        if agent is not None and self._depth:
            self._depth -= 1
            agent.job_end()


def job(name: str | None = None) -> Job:
    """A job of this task, as a context manager.

    ::

        with rtswap.job():
            output = model(input)

    The block is entered once the task may use the GPU and all its memory is there. It is left, by an exception too,
    once all that was put on the GPU is done, on all streams: no ``torch.cuda.synchronize()`` is needed before. What
    other threads put there later is not part of it. So wait within the block for whatever enqueues by itself: JAX
    does (``jax.block_until_ready(output)``).

    Jobs may nest, the outermost counts; a process has one at a time on a GPU, so threads with jobs of their own share
    it until the last one ends. The GPU is that of the current CUDA context: before CUDA is initialised there is no
    agent yet, and the block is none. Load models outside of jobs. A job that is captured into a CUDA graph ends
    after the capture.

    In a process with several kinds of jobs a ``name`` says which this one is, so that ``rtswapctl profile`` measures
    each by itself; of nested jobs the outermost's counts. To the daemon all jobs of a process are one task's.
    """
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a job (1 to 63 of A-Z a-z 0-9 . _ -)")
    return Job(None if name is None else name.encode())
