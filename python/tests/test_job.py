"""Jobs begin and end as the agent is to be told."""

from __future__ import annotations

from conftest import Programs

NESTED = """
    import rtswap
    with rtswap.job():
        with rtswap.job():
            pass
    print(rtswap.is_managed())
"""


def test_each_begin_has_its_end(programs: Programs) -> None:
    outcome = programs.run(NESTED, stub=True)
    assert outcome.calls == ["begin", "begin", "end", "end"]
    assert outcome.out == "True\n"


def test_a_job_with_a_name_tells_it(programs: Programs) -> None:
    code = """
        import rtswap
        with rtswap.job("front"), rtswap.job():
            pass
        try:
            rtswap.job("no name")
        except ValueError as error:
            print(error)
    """
    outcome = programs.run(code, stub=True)
    assert outcome.calls == ["front", "begin", "end", "end"]
    assert outcome.out == "'no name' cannot name a job (1 to 63 of A-Z a-z 0-9 . _ -)\n"


def test_without_an_agent_nothing_happens_and_nothing_is_said(programs: Programs) -> None:
    outcome = programs.run(NESTED, stub=False)
    assert (outcome.out, outcome.err, outcome.calls) == ("False\n", "", [])


def test_a_task_whose_agent_was_lost_is_warned_once(programs: Programs) -> None:
    outcome = programs.run(NESTED, stub=False, RTSWAP_TASK="yolo")
    assert outcome.err.count("RuntimeWarning: this process is to be task 'yolo'") == 1
    # It points at the user's line.
    assert outcome.err.startswith("<string>:3:")


def test_exceptions_end_the_job_and_go_on(programs: Programs) -> None:
    code = """
        import rtswap
        try:
            with rtswap.job():
                raise KeyError("mine")
        except KeyError as error:
            print(error)
        with rtswap.job():
            raise SystemExit(7)
    """
    outcome = programs.run(code, stub=True, fails=True)
    assert outcome.out == "'mine'\n"
    assert outcome.calls == ["begin", "end"] * 2


def test_an_interrupt_while_a_job_waits_leaves_no_job_behind(programs: Programs) -> None:
    code = """
        import signal, time
        import rtswap
        class Interrupt(Exception):
            pass
        def interrupt(*_):
            raise Interrupt
        signal.signal(signal.SIGALRM, interrupt)
        for turn in range(60):
            try:
                # While it waits to begin, and while it runs.
                signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + turn % 9))
                with rtswap.job():
                    time.sleep(1)
            except Interrupt:
                continue
            raise SystemExit("not interrupted")
    """
    outcome = programs.run(code, stub=True, STUB_BEGIN_US="2000")
    assert outcome.calls == ["begin", "end"] * (len(outcome.calls) // 2)
    # Not all came before they began.
    assert len(outcome.calls) >= 20 * 2


def test_other_threads_run_while_a_job_waits(programs: Programs) -> None:
    code = """
        import threading, time
        import rtswap
        begun, counted = threading.Event(), 0
        def wait():
            with rtswap.job():
                begun.set()
        thread = threading.Thread(target=wait)
        thread.start()
        while not begun.is_set():
            counted += 1
            time.sleep(0.001)
        print(counted > 5)
    """
    assert programs.run(code, stub=True, STUB_BEGIN_US="2000000").out == "True\n"
