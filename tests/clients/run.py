"""Runs all tests here on a simulated machine of their own, and says how many passed.

`run.py FOLDER`: where the programs and libraries of this build are. The simulated driver is to be in LD_LIBRARY_PATH.
"""

import faulthandler
import os
import sys
import tempfile
import unittest

# A whole run takes half a minute.
PATIENCE_S = 300

# Small, and slow enough that a little work keeps it busy.
MACHINE = {
    "SIMGPU_GPUS": "2",
    "SIMGPU_MEMORY": "256MiB",
    "SIMGPU_CONTEXT_BYTES": "2MiB",
    "SIMGPU_COMPUTE_GIB_PER_S": "1.0",
    "SIMGPU_RELEASE_LAG_MS": "300",
}


class Results(unittest.TextTestResult):
    """Counts what passed, too."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
    _, build = sys.argv
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ |= MACHINE | {"SIMGPU_DIR": folder, "BUILD": build}
        tests = unittest.defaultTestLoader.discover(os.path.dirname(__file__))
        runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Results)
        results = runner.run(tests)
    failed = len(results.failures) + len(results.errors)
    print(f"{results.passed} passed, {failed} failed")
    return 0 if results.passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
