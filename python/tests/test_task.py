"""Functions that are tasks."""

from __future__ import annotations

import time

import pytest

import rtswap
from conftest import Programs

MS = 1_000_000


def test_each_call_is_a_job(programs: Programs) -> None:
    code = """
        import rtswap
        @rtswap.task(period="1s")
        def add(a, *, b):
            "Adds."
            return a + b
        print(add(1, b=2), add.__name__, add.__doc__, add.stats.jobs, add.stats.deadline_misses)
    """
    outcome = programs.run(code, stub=True)
    assert outcome.out == "3 add Adds. 1 0\n"
    assert outcome.calls == ["begin", "end"]
    assert outcome.err == ""


def test_what_it_gives_is_waited_for_within_the_job(programs: Programs) -> None:
    code = """
        import ctypes, rtswap
        class Array:
            def block_until_ready(self):
                ctypes.CDLL(None).rtswap_hint_writable(None, 7)
        @rtswap.task(period="1s")
        def arrays():
            return {"a": [Array(), (Array(), 3)]}
        arrays()
    """
    assert programs.run(code, stub=True).calls == ["begin", "writable 0 7", "writable 0 7", "end"]


def test_who_runs_a_task_without_an_agent_is_told_how_to_start_it(programs: Programs) -> None:
    code = """
        import rtswap
        @rtswap.task(period="33.3ms")
        def detect():
            pass
        detect.run(jobs=3)
    """
    err = programs.run(code, stub=False).err
    assert err.count("RuntimeWarning: detect runs without rtswap") == 1
    assert "rtswapctl run --name NAME --period 33.3ms" in err


@pytest.mark.filterwarnings("ignore:.*runs without rtswap")
class TestReleases:
    def test_they_stay_on_the_grid(self) -> None:
        starts: list[int] = []

        @rtswap.task(period="20ms")
        def work() -> None:
            starts.append(time.monotonic_ns())
            time.sleep(0.007)

        begin = time.monotonic_ns()
        stats = work.run(jobs=30)
        assert stats.jobs == 30 == len(starts)
        # However long the jobs, and however late the host woke it: none is early, and lateness does not add up.
        late = [(start - begin) / (20 * MS) for start in starts]
        assert late[-1] >= 29 + stats.skipped
        parts = sorted(periods % 1 for periods in late)
        assert parts[len(parts) // 2] < 0.3, late

    def test_a_late_job_skips_releases_and_counts_what_it_missed(self) -> None:
        starts: list[int] = []

        @rtswap.task(period="50ms", deadline="40ms")
        def work() -> None:
            starts.append(time.monotonic_ns())
            if len(starts) == 2:
                time.sleep(0.13)

        begin = time.monotonic_ns()
        stats = work.run(jobs=3)
        # More where the host was late as well.
        assert stats.jobs == 3
        assert stats.deadline_misses >= 1
        assert stats.skipped >= 2
        assert stats.max_response_ns > 130 * MS
        assert stats.total_response_ns >= stats.max_response_ns
        # The third did not come at once, at 180 ms, but with the release after those that were skipped.
        assert starts[2] - begin >= (2 + stats.skipped) * 50 * MS

    def test_it_stops_from_within_and_from_the_wait(self) -> None:
        @rtswap.task(period="1min")
        def once() -> None:
            once.stop()

        assert once.run().jobs == 1

    def test_an_exception_ends_it_and_its_job_counts(self) -> None:
        @rtswap.task(period="1ms")
        def fail() -> None:
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            fail.run()
        assert fail.stats.jobs == 1

    def test_a_method_is_a_task_of_all_its_instances(self) -> None:
        class Model:
            def __init__(self, factor: int) -> None:
                self.factor = factor

            @rtswap.task(period="1s")
            def infer(self, value: int) -> int:
                return value * self.factor

        one, two = Model(2), Model(3)
        assert (one.infer(5), two.infer(5)) == (10, 15)
        assert Model.infer.stats.jobs == 2
        assert two.infer.run(jobs=1, args=(1,)).jobs == 3


def test_what_cannot_be_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match="the period is 0"):
        rtswap.task(period="0ms")
    with pytest.raises(ValueError, match="the deadline, 40ms, must be .* at most the period, 33ms"):
        rtswap.task(period="33ms", deadline="40ms")
    with pytest.raises(ValueError, match="weeks is no unit"):
        rtswap.task(period="3weeks")
    with pytest.raises(TypeError, match="not done when it returns"):

        @rtswap.task(period="33ms")
        async def later() -> None: ...
