"""numba-cuda: arrays of its own, and an end while they are alive.

In a process of its own, because `cuda.close()` takes the primary context of everything here.
"""

import subprocess
import sys
import unittest

PROGRAM = """
import gc
import numpy
from numba import cuda

host = numpy.arange(100_000)
array, bare = cuda.to_device(host), cuda.device_array(5_000)
pinned, managed = cuda.pinned_array(100), cuda.managed_array(10)
stream, event = cuda.stream(), cuda.event()
event.record(stream)
event.synchronize()
assert (array.copy_to_host() == host).all()
cuda.close()
# What it still holds is gone with the context, which must not be an error.
del array, bare, pinned, managed, stream, event
gc.collect()
print("closed")
"""


class Numba(unittest.TestCase):
    def test_close_after_arrays_of_its_own(self):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "closed\n"), done.stderr)
        self.assertEqual(done.stderr, "")
