"""What the parts compute and decide without a GPU: `python3 -m unittest` in this folder."""

import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path

from harness import Report
from harness.program import Program, clean_environment

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "workloads"), str(HERE / "parts")]

import case_study  # noqa: E402
import common  # noqa: E402
import frameworks as workloads  # noqa: E402
import measured  # noqa: E402
import sets  # noqa: E402


def part(name):
    """A part's module; that of the frameworks has the name of its programs'."""
    spec = importlib.util.spec_from_file_location(f"part_{name}", HERE / "parts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Gpuless:
    """What a part asks of a machine here."""

    def __init__(self, simulated):
        self.simulated = simulated


class Names(unittest.TestCase):
    @unittest.skipUnless(hasattr(sys, "stdlib_module_names"), "Python before 3.10 does not list its modules")
    def test_no_program_hides_a_module_of_python(self):
        # A script's folder is searched first: whatever imports such a module would get ours.
        for folder in ("workloads", "parts"):
            names = {path.stem for path in (HERE / folder).glob("*.py")}
            self.assertEqual(names & sys.stdlib_module_names, set())


class Sets(unittest.TestCase):
    def test_the_jobs_that_are_due_are_the_whole_periods(self):
        # 600, 600, 900, 900, 1200 and 1200 ms, the first at 500 ms and a sixth of the period more each.
        self.assertEqual(case_study.due(sets.TABLE_4, 12.0), 19 + 19 + 12 + 12 + 8 + 8)
        self.assertEqual(case_study.due(sets.TABLE_4, 0.1), 0)

    def test_they_overflow_as_the_paper_says(self):
        total = sum(task.footprint for task in sets.TABLE_4) / sets.GIB
        self.assertAlmostEqual(total, 25.6, delta=0.06)
        self.assertEqual([task.period_ms for task in sets.TABLE_4], [600, 600, 900, 900, 1200, 1200])
        self.assertEqual(len(sets.HEAVY), 12)
        self.assertTrue(94 < sets.overflow(sets.HEAVY, sets.PAPER_CAPACITY) < 96.2)
        for task in sets.TABLE_4 + sets.HEAVY:
            self.assertLess(task.swappable, task.footprint)

    def test_a_smaller_card_has_the_same_overflow_and_room_for_contexts(self):
        for capacity, context in ((6 * sets.GIB, 700 * sets.MIB), (sets.PAPER_CAPACITY, 0)):
            tasks = sets.scaled(sets.HEAVY, capacity, context)
            before = sets.overflow(sets.HEAVY, sets.PAPER_CAPACITY)
            self.assertAlmostEqual(sets.overflow(tasks, capacity), before, places=3)
            for task in tasks:
                self.assertTrue(task.swappable == 0 or task.footprint - task.swappable >= context)


class Measured(unittest.TestCase):
    def test_percentiles_are_of_what_was_measured(self):
        values = [float(value) for value in range(100, 0, -1)]
        self.assertEqual([measured.percentile(values, percent) for percent in (1, 50, 90, 99, 100)], [1, 50, 90, 99, 100])
        self.assertEqual(measured.percentile([7.0], 50), 7.0)
        self.assertEqual(measured.percentile([], 50), 0.0)
        self.assertEqual(measured.cdf(values, 4), [1, 25, 50, 75, 100])

    def test_a_run_is_the_sum_of_its_tasks(self):
        rows = {name: {"jobs": 2, "misses": misses, "wrong": 0, "of_deadline": [0.5, 1.5], "held_ms": [2.0, 1.0, 4.0]} for name, misses in (("a", 1), ("b", 0))}
        found = measured.summary(rows)
        self.assertEqual((found["jobs"], found["misses"], found["wrong"], found["of_deadline"]["p100"]), (4, 1, 0, 1.5))
        self.assertEqual((found["spread"], measured.spread([])), (2.0, 0.0))


class Programs(unittest.TestCase):
    """Programs of the parts, played by small scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def start(self, name, code):
        program = Program([sys.executable, "-c", code], clean_environment(), self.folder / name)
        self.addCleanup(program.kill)
        return program

    def test_whole_processes_are_suspended_one_at_a_time(self):
        log = self.folder / "asked"
        helper = "print('able', flush=True)\nlog = open(%r, 'a')\nfor line in iter(input, ''):\n    print(line, file=log, flush=True)\n    print('ok', flush=True)" % str(log)
        task = (
            "import json\nprint('ready', flush=True)\nassert input() == 'begin'\nprint('begun', flush=True)\n"
            "assert input() == 'load'\nprint('loaded', flush=True)\nassert input() == 'ask'\nprint('asking', flush=True)\nassert input().startswith('run ')\n"
            "for job in range(3):\n    print('want', flush=True)\n    input()\n    print('done', flush=True)\n    input()\n"
            "print(json.dumps({'jobs': 3, 'misses': 0, 'wrong': 0, 'responses_ms': [300.0], 'held_ms': [1.0]}), flush=True)\ninput()"
        )
        tasks = sets.TABLE_4[:3]
        programs = {each.name: self.start(each.name, task) for each in tasks}
        results = case_study.with_checkpoints(self.start("helper", helper), programs, tasks, 30)
        self.assertEqual(results[tasks[2].name]["of_deadline"], [300.0 / 900])
        words = [line.split() for line in log.read_text().splitlines()]
        first, jobs = words[:3], words[3:]
        self.assertEqual([word for word, _ in first], ["suspend"] * 3)
        self.assertEqual([word for word, _ in jobs], ["resume", "suspend"] * 9)
        self.assertTrue(all(one[1] == other[1] for one, other in zip(jobs[::2], jobs[1::2])))

    def test_a_driver_that_cannot_suspend_is_said(self):
        helper = self.start("helper", "print('none at all', flush=True)\ninput()")
        with self.assertRaisesRegex(case_study.Skip, "none at all"):
            case_study.with_checkpoints(helper, {}, [], 1)

    def compared(self, code):
        report = Report("trial")
        frameworks = part("frameworks")
        swaps = frameworks.compare(report, "torch-eager", ["0 aa", "1 bb", "2 cc"], self.start("tortured", code), 5.0, 2, float("inf"))
        return report, swaps

    def test_what_differs_under_torture_fails(self):
        torture = "import sys\nprint('ready', flush=True)\ninput()\nprint('rtswap[1]: torture: 0 bytes out and in', file=sys.stderr)\nprint('rtswap[1]: torture: 64 bytes out and in, 8', file=sys.stderr)\n"
        report, swaps = self.compared(torture + "print('0 aa')\nprint('1 bb')")
        self.assertEqual((report.failures, swaps), ([], 1))
        report, _ = self.compared(torture + "print('0 aa')\nprint('1 xx')")
        self.assertIn("steps that differ: 1 of 2", report.failures[0])
        report, _ = self.compared(torture + "print('0 aa')")
        self.assertIn("too few", report.failures[0])
        report, _ = self.compared(torture + "sys.exit('CUDA error')")
        self.assertIn("not under it: ended with 1: CUDA error", report.failures[0])

    def test_only_its_own_word_makes_a_plain_run_a_skip(self):
        frameworks = part("frameworks")
        own = frameworks.outcome(self.start("own", "print('skip: no GPU')\nraise SystemExit(77)"), 30)
        broken = frameworks.outcome(self.start("broken", "raise SystemExit('CUDA error')"), 30)
        self.assertEqual((own.skipped, own.why, broken.skipped), (True, "no GPU", False))
        for simulated, failures in ((False, ["cupy does not run without rtswap: ended with 1: CUDA error"]), (True, [])):
            report = Report("trial")
            for run in (own, broken):
                frameworks.not_run(report, Gpuless(simulated), "cupy", run)
            self.assertEqual((report.failures, len(report.notes)), (failures, 2 - len(failures)))

    def test_a_framework_that_is_installed_has_to_run(self):
        frameworks = part("frameworks")
        frameworks.has = lambda module: module in ("torch", "jax")
        for simulated, failures in ((False, ["jax is installed, and nothing of it ran"]), (True, [])):
            report = Report("trial")
            frameworks.tell_families(report, Gpuless(simulated), 3, ["driver", "torch-eager"])
            self.assertEqual(report.failures, failures)
            figure = report.figures[0]
            self.assertEqual((figure["name"], figure["value"], figure["unit"]), ("workloads skipped", 3, "of 12"))

    def test_waits_end_with_the_part(self):
        frameworks = part("frameworks")
        now = frameworks.time.monotonic()
        self.assertEqual(frameworks.within(60, now + 1000), 60)
        self.assertAlmostEqual(frameworks.within(60, now + 10), 10 + frameworks.MARGIN_S / 2, delta=5)
        self.assertEqual(frameworks.within(60, now - 1000), 0)

    def test_a_probe_that_does_not_end_is_no_refusal(self):
        doors = part("doors")
        doors.PROBE_S = 0.3
        machine = Gpuless(False)
        machine.binary = lambda _: self.folder
        for code, outcome in (("while True: pass", "late"), ("raise SystemExit(1)", "bare"), ("print('1')\nprint('ok')", "ok")):
            machine.start = lambda _, name, code=code, **how: self.start(name, code)
            doors.PROBE_S = 0.3 if outcome == "late" else 30.0
            found = doors.tried(machine, {"file": "a", "argument": "b", "compares": True}, float("inf"))
            self.assertEqual(found.split(":")[0], outcome)
        machine.start = lambda _, name, **how: self.start(name, "while True: pass")
        with self.assertRaises(doors.Over):
            doors.tried(machine, {"file": "a", "argument": "b", "compares": True}, doors.time.monotonic() + 0.2)

    def test_too_few_probes_are_a_failure_on_a_real_gpu(self):
        doors = part("doors")
        few = ["ok"] * 7 + ["bare"] * 3
        for simulated, outcomes, probes, failures in ((False, few, 10, 1), (False, ["ok"] * 8 + ["bare"] * 2, 11, 1), (False, ["ok"] * 8 + ["bare"] * 2, 10, 0), (True, ["ok"], 9, 0), (True, ["ok", "late"], 2, 1)):
            report = Report("trial")
            doors.tell(report, Gpuless(simulated), outcomes, probes)
            self.assertEqual(len(report.failures), failures, (outcomes, report.failures))

    def test_a_torch_without_a_gpu_fails_and_no_torch_is_said(self):
        machine = Gpuless(False)
        machine.run = lambda command, *_, **__: self.start("torch", "raise SystemExit('no CUDA')").finish(30)
        before = common.has
        self.addCleanup(setattr, common, "has", before)
        for there, failures in ((True, ["torch is installed and does not compute on the GPU: no CUDA"]), (False, [])):
            common.has = lambda _, there=there: there
            report = Report("trial")
            self.assertEqual(common.find_backend(report, machine), "driver")
            self.assertEqual(report.failures, failures)
            self.assertIn("backend: driver", report.notes[0])

    def test_an_inherited_python_path_stays(self):
        machine = Gpuless(False)
        machine.bundle = self.folder
        (self.folder / "python" / "rtswap").mkdir(parents=True)
        before = os.environ.get("PYTHONPATH")
        self.addCleanup(lambda: os.environ.pop("PYTHONPATH", None) if before is None else os.environ.update(PYTHONPATH=before))
        os.environ["PYTHONPATH"] = "/one:/two"
        self.assertEqual(common.python_path(machine), {"PYTHONPATH": f"{self.folder / 'python'}:/one:/two"})
        del os.environ["PYTHONPATH"]
        self.assertEqual(common.python_path(machine), {"PYTHONPATH": str(self.folder / "python")})

    def test_probes_that_are_on_and_blind_are_a_failure_on_a_real_gpu(self):
        conformance = part("conformance")
        for simulated, failures in ((False, ["blind"]), (True, [])):
            report = Report("trial")
            conformance.unseen(report, Gpuless(simulated), "blind")
            self.assertEqual(report.failures, failures)

    def test_only_the_simulated_gpu_is_asked_few_things_and_that_is_said(self):
        names = ["bad/init-flags", "create/flags", "map/flags", "sticky/illegal-address"]
        probes = list(range(60))
        for simulated, counts in ((False, (4, 60)), (True, (3, 3))):
            report = Report("trial")
            machine = Gpuless(simulated)
            found = part("conformance").asked(report, machine, names), part("doors").asked(report, machine, probes)
            self.assertEqual(tuple(map(len, found)), counts)
            left_out = ["left out: 1 of 4 cases", "left out: 57 of 60 probes"] if simulated else []
            self.assertEqual([note.split(",")[0] for note in report.notes], left_out)

    def test_each_workload_has_its_function(self):
        for workload in workloads.WORKLOADS.values():
            source = (HERE / "workloads" / f"{workload.module}.py").read_text()
            self.assertIn(f"def {workload.function}(device: str) -> Steps:", source.replace("_device", "device"))


if __name__ == "__main__":
    unittest.main()
