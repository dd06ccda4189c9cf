"""The kit against parts that hang, crash, lie and leave processes behind: `python3 -m unittest` in this folder."""

import json
import os
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import ProgramError, descendants, kit
from harness.program import Program, clean_environment

HERE = Path(__file__).resolve().parent
FRAME = '"""What it shows."""\nfrom harness import Skip, run_part\nRANK = 1\nLIMIT_S = 20\ndef measure(report, machine):\n'
END = '\nrun_part("trial", measure)\n'


class Parts(unittest.TestCase):
    """Each outcome of a part, by what the kit makes of it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        descendants.adopt()

    def outcome(self, text, limit_s=20.0):
        path = self.out / "trial.py"
        path.write_text(text)
        variables = {"PYTHONPATH": str(HERE), "RTSWAP_GPU_OUT": str(self.out), "TMPDIR": str(self.out)}
        result = kit.run_part(kit.read_part(path), {**os.environ, **variables}, self.out, limit_s)
        self.assertEqual(json.loads((self.out / "trial.json").read_text()), result)
        self.assertEqual(descendants.children(), [])
        return result

    def test_a_part_that_keeps_its_bounds_passes(self):
        result = self.outcome(FRAME + '    report.figure("speed", 3.0, "GiB/s", least=2.5)\n    report.note("so")' + END)
        self.assertEqual((result["outcome"], result["why"], result["notes"]), ("passed", "", ["so"]))
        bound = {"name": "speed", "value": 3.0, "unit": "GiB/s", "bound": "at least 2.5", "met": True}
        self.assertEqual(result["figures"], [bound])

    def test_a_bound_that_is_not_met_fails(self):
        result = self.outcome(FRAME + '    report.figure("errors", 1, "", most=0)' + END)
        self.assertEqual(result["outcome"], "failed")
        self.assertIn("errors: 1", result["why"])

    def test_a_skip_says_why(self):
        result = self.outcome(FRAME + '    raise Skip("there is no torch")' + END)
        self.assertEqual((result["outcome"], result["why"]), ("skipped", "there is no torch"))

    def test_what_was_measured_before_an_error_is_kept(self):
        result = self.outcome(FRAME + '    report.figure("a", 1, "")\n    raise ValueError("broken")' + END)
        self.assertEqual((result["outcome"], len(result["figures"])), ("failed", 1))
        self.assertIn("broken", result["why"])

    def test_a_part_that_hangs_is_ended_and_keeps_what_it_had(self):
        text = '    import time\n    report.figure("a", 1, "")\n    time.sleep(300)'
        # On a busy machine a part is over before its first figure: then it gets more time.
        for limit_s in (1.5, 6.0, 24.0):
            start = time.monotonic()
            result = self.outcome(FRAME + text + END, limit_s=limit_s)
            took = time.monotonic() - start
            if result["figures"]:
                break
        self.assertLess(took, limit_s + 60)
        self.assertEqual((result["outcome"], len(result["figures"])), ("failed", 1))
        self.assertIn(f"its {limit_s:g} s were over", result["why"])

    def test_one_that_does_not_listen_is_killed(self):
        text = "    import os, signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    signal.pause()"
        before, kit.LAST_WORDS_S = kit.LAST_WORDS_S, 0.5
        self.addCleanup(setattr, kit, "LAST_WORDS_S", before)
        result = self.outcome(FRAME + text + END, limit_s=1.5)
        self.assertEqual(result["outcome"], "failed")

    def test_a_crash_is_a_failed_row(self):
        result = self.outcome(FRAME + "    import os\n    os.abort()" + END)
        self.assertEqual(result["outcome"], "failed")
        self.assertIn("killed by signal 6", result["why"])

    def test_a_result_that_the_exit_code_denies_fails(self):
        result = self.outcome(FRAME + "    import atexit, os\n    atexit.register(os._exit, 3)" + END)
        self.assertEqual(result["outcome"], "failed")
        self.assertIn("ended with 3 though it says passed", result["why"])

    def test_what_left_the_session_is_ended_too(self):
        text = (
            "    import subprocess\n"
            '    subprocess.Popen(["sh", "-c", "setsid sh -c \'setsid sleep 300 & echo $! >" + str(machine.logs) + "/pid; wait\' &"])\n'
            "    from harness.program import wait_until\n"
            '    wait_until("its pid", 15, lambda: (machine.logs / "pid").is_file() and (machine.logs / "pid").read_text().endswith("\\n"))'
        )
        result = self.outcome(FRAME + text + END)
        self.assertEqual(result["outcome"], "passed")
        pid = int((self.out / "trial" / "pid").read_text())
        self.assertFalse(Path(f"/proc/{pid}").exists())


class Programs(unittest.TestCase):
    """Every wait for a program has a bound."""

    def start(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Program(["sh", "-c", script], clean_environment(), Path(folder.name) / "it")
        self.addCleanup(program.kill)
        return program

    def test_lines_come_one_by_one_and_their_end_is_told(self):
        program = self.start("echo one; echo two; read x; echo $x; echo why >&2")
        self.assertEqual(program.wait_for("two", 30), "two")
        program.say("three")
        self.assertEqual(program.line(30), "three")
        with self.assertRaisesRegex(ProgramError, "ended.*why"):
            program.line(30)
        self.assertEqual(program.finish(30), (0, "one\ntwo\nthree\n", "why\n"))

    def test_rows_are_there_as_they_come_and_what_ends_them_is_an_error(self):
        self.assertEqual(list(self.start("echo 1; echo '[2]'").rows(30)), [1, [2]])
        for script, limit_s, why in (("echo 1; sleep 100", 5, "did not end"), ("echo 1; printf '{\"a'; echo why >&2", 30, "no JSON")):
            found = []
            with self.assertRaisesRegex(ProgramError, why):
                for row in self.start(script).rows(limit_s):
                    found.append(row)
            self.assertEqual(found, [1])

    def test_silence_and_endlessness_are_errors(self):
        program = self.start("sleep 100")
        with self.assertRaisesRegex(ProgramError, "said nothing"):
            program.line(0.1)
        with self.assertRaisesRegex(ProgramError, "did not end"):
            program.finish(0.1)
        self.assertFalse(program.is_running())

    def test_only_what_steers_rtswap_is_left_out_of_the_environment(self):
        given = {"LD_PRELOAD": "a", "RTSWAP_TASK": "b", "SIMGPU_DIR": "c", "PATH": "d"}
        self.assertEqual(clean_environment(given), {"PATH": "d"})


class CommandLine(unittest.TestCase):
    """What is wrong is said, and nothing is run."""

    def refused(self, *arguments):
        run = subprocess.run([HERE / "run.sh", *arguments], capture_output=True, text=True, timeout=30)
        self.assertEqual(run.returncode, 2)
        return run.stderr

    def test_bad_input_is_refused(self):
        self.assertIn("no such part: nonsense", self.refused("nonsense"))
        self.assertIn("no rtswapd in", self.refused("--bundle", "/nonexistent"))

    def test_a_part_that_takes_its_limit_leaves_the_others_their_share(self):
        self.assertEqual(kit.share(100, [30, 40]), 30)
        self.assertEqual(kit.share(100, [100, 50, 50]), 50)
        self.assertEqual(kit.share(0, [10]), 0)
        self.assertEqual(kit.share(-3, [10]), 0)

    def test_all_parts_are_described_and_may_take_most_of_their_limits(self):
        parts = kit.all_parts()
        self.assertLessEqual(sum(part.limit_s for part in parts), 1.5 * kit.TOTAL_S)
        for part in parts:
            self.assertTrue(part.shows.endswith("."), part)
            self.assertTrue(os.access(part.path, os.X_OK), part)


if __name__ == "__main__":
    unittest.main()
