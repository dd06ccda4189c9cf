"""Functions that are tasks: each call one job, on call or periodically."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Callable, Generic, TypeVar

from rtswap import _abi
from rtswap._duration import parse_ns
from rtswap._job import job
from rtswap._leaves import leaves

if sys.version_info >= (3, 10):
    from typing import ParamSpec
else:
    from typing_extensions import ParamSpec

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class TaskStats:
    """What became of a task's jobs, as the program sees it: a response is from release to completion."""

    jobs: int = 0
    #: Jobs that completed after their deadline.
    deadline_misses: int = 0
    #: Releases that came and went while a job was not done yet; there was no job for these.
    skipped: int = 0
    max_response_ns: int = 0
    total_response_ns: int = 0


class Task(Generic[P, R]):
    """A function each call of which is a job. Made by :func:`task`."""

    def __init__(self, function: Callable[P, R], period_ns: int, deadline_ns: int) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._state = _State()
        self.name = getattr(function, "__name__", type(function).__name__)
        self.period_ns = period_ns
        self.deadline_ns = deadline_ns

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs one job, released now; what the function gives."""
        return self._job(time.monotonic_ns(), args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Task[..., R]:
        """As a method: the same task, bound."""
        if instance is None:
            return self
        bound: Task[..., R] = copy.copy(self)
        bound._function = self._function.__get__(instance, owner)
        return bound

    def run(
        self,
        jobs: int | None = None,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> TaskStats:
        """Releases a job each period, on a fixed grid of the monotonic clock, so that no delay adds up; the first
        one now. Each calls the function with ``args`` and ``kwargs``. Returns after so many ``jobs``, after
        :meth:`stop`, or with the function's exception; what became of all jobs so far, those of earlier calls too.

        Where a job is not done when the next is released, that release is skipped and counted, and the next job comes
        with the next release on the grid: a task that is late does not also come late to the ones after.
        """
        state, keywords = self._state, dict(kwargs or {})
        state.stopped.clear()
        release, left = time.monotonic_ns(), jobs
        while (left is None or left > 0) and not state.stopped.is_set():
            self._job(release, tuple(args), keywords)
            left = None if left is None else left - 1
            if left == 0 or state.stopped.is_set():
                break
            release += self.period_ns
            late = time.monotonic_ns() - release
            if late > 0:
                skipped = late // self.period_ns + 1
                state.skipped(skipped)
                release += skipped * self.period_ns
            _sleep_until(release, state.stopped)
        return state.stats

    def stop(self) -> None:
        """Ends a :meth:`run` under way, from the function or from any thread, after the job that runs."""
        self._state.stopped.set()

    @property
    def stats(self) -> TaskStats:
        """What became of all jobs so far."""
        return self._state.stats

    def _job(self, release: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
        if not _abi.is_managed():
            _abi.warn_once(
                f"{self.name} runs without rtswap: no deadline is guaranteed. Start it as a task, with "
                f"rtswapctl run --name NAME --period {self.period_ns / 1e6:g}ms --wcet … --footprint … --swappable … -- …"
            )
        try:
            with job():
                result = self._function(*args, **kwargs)
                # JAX enqueues from threads of its own, and what it has not enqueued yet would not be of this job.
                for leaf in leaves(result):
                    if callable(getattr(leaf, "block_until_ready", None)):
                        leaf.block_until_ready()
        finally:
            self._state.completed(time.monotonic_ns() - release, self.deadline_ns)
        return result


def task(*, period: str, deadline: str | None = None) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Makes a function a task: each call is a job, and the task's deadline misses are counted.

    ::

        @rtswap.task(period="33ms")
        def detect(frame):
            return model(frame)

        detect(frame)        # one job, now
        detect.run(jobs=1000, args=(frame,))    # one every 33 ms
        detect.stats.deadline_misses

    ``period`` is the least time between two releases, ``deadline`` is relative to a release and defaults to it; both
    are written as for ``rtswapctl``: ``"33ms"``, ``"0.5s"``. The job ends when all the GPU's work of the call is done
    (:func:`job`); JAX arrays in what the function returns are waited for.

    This releases jobs and declares them. The guarantee that they meet their deadlines comes from registering the
    program as a task with the same numbers, by ``rtswapctl run --period 33ms …`` or in ``tasks.d``. A program is one
    task, so it has one such function, or several that are never due at once.
    """
    period_ns = parse_ns(period)
    deadline_ns = period_ns if deadline is None else parse_ns(deadline)
    if not period_ns > 0:
        raise ValueError("the period is 0; it is the time between two releases")
    if not 0 < deadline_ns <= period_ns:
        raise ValueError(f"the deadline, {deadline}, must be more than 0 and at most the period, {period}")

    def made(function: Callable[P, R]) -> Task[P, R]:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"{function!r} is not done when it returns, so it cannot be a job; make it a plain function")
        return Task(function, period_ns, deadline_ns)

    return made


class _State:
    """What the bound forms of a task share."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.stats = TaskStats()
        self._lock = threading.Lock()

    def completed(self, response_ns: int, deadline_ns: int) -> None:
        with self._lock:
            old = self.stats
            self.stats = replace(
                old,
                jobs=old.jobs + 1,
                deadline_misses=old.deadline_misses + (response_ns > deadline_ns),
                max_response_ns=max(old.max_response_ns, response_ns),
                total_response_ns=old.total_response_ns + response_ns,
            )

    def skipped(self, releases: int) -> None:
        with self._lock:
            self.stats = replace(self.stats, skipped=self.stats.skipped + releases)


def _sleep_until(instant_ns: int, stopped: threading.Event) -> None:
    while (left := instant_ns - time.monotonic_ns()) > 0 and not stopped.wait(left / 1e9):
        pass

