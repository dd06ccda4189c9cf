"""numba-cuda: arrays of its own, and an end while they are alive.

In a process of its own, because `cuda.close()` takes the primary context of everything here.
"""

import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent


class Numba(unittest.TestCase):
    def test_close_after_arrays_of_its_own(self):
        command = [sys.executable, "-B", "-W", "ignore", HERE / "work_numba.py"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "closed\n"), done.stderr)
        self.assertEqual(done.stderr, "")
