"""Programs that know nothing of rtswap compute the same bytes under it, swapped out and in between every two calls."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from machine import MIB, built, wait_until

HERE = pathlib.Path(__file__).parent
# Far more than any workload takes.
BOUND_S = 120
CHUNK = 2 * MIB
# Faster than the GPU of the other tests: each call waits for two copies of everything.
MACHINE = {"SIMGPU_GPUS": "1", "SIMGPU_D2H_GIB_PER_S": "32.0", "SIMGPU_H2D_GIB_PER_S": "32.0", "SIMGPU_COMPUTE_GIB_PER_S": "32.0"}
TORTURE = re.compile(r"torture: (\d+) bytes out and in, (\d+) of them copied out")


class Agent(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        simgpu, run = self.folder / "simgpu", self.folder / "run"
        simgpu.mkdir()
        run.mkdir()
        self.environment = os.environ | MACHINE | {"SIMGPU_DIR": str(simgpu), "RTSWAP_RUNTIME_DIR": str(run)}
        self.socket = run / "agent.sock"

    def start_daemon(self):
        info = self.output(built("dnn"), "--info", environment=self.environment)
        uuid = json.loads(info.stdout)["gpus"][0]["uuid"]
        config = self.folder / "rtswapd.toml"
        # Nothing that they do is a violation.
        daemon = 'version = 1\n[daemon]\non_violation = "kill"\n'
        config.write_text(f'{daemon}[[gpu]]\nuuid = "{uuid}"\nmemory = "256MiB"\nchunk = "{CHUNK}"\n')
        log = (self.folder / "daemon.log").open("w")
        self.addCleanup(log.close)
        command = [built("rtswapd"), "--config", config, "--bus", "none"]
        daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.addCleanup(daemon.wait, BOUND_S)
        self.addCleanup(daemon.terminate)
        wait_until("the daemon serves", lambda: self.socket.exists() or daemon.poll() is not None)
        self.assertIsNone(daemon.poll(), (self.folder / "daemon.log").read_text())

    def output(self, *command, environment):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        return done

    def compare(self, *command, least_calls, least_bytes):
        plain = self.output(*command, environment=self.environment).stdout
        self.start_daemon()
        left, copied = self.torture(command, plain, clean="off")
        # It was not idle: before so many calls so much left and came back.
        self.assertGreaterEqual(len(left), least_calls)
        self.assertGreaterEqual(sum(left), least_bytes)
        all_copied = sum(copied) / sum(left)
        # Likewise where what did not change stays in its slot: less is copied, and nothing lost.
        left, fewer = self.torture(command, plain, clean="fingerprint")
        self.assertGreaterEqual(sum(left), least_bytes)
        self.assertLess(sum(fewer) / sum(left), all_copied)

    def torture(self, command, plain, clean):
        """Runs it under the agent; the bytes that left before each call, if any did, and those copied out."""
        agent = {"LD_PRELOAD": str(built("librtswap_cuda.so")), "RTSWAP_LOG": "debug"}
        agent |= {"RTSWAP_TORTURE": "every-call", "RTSWAP_CLEAN": clean}
        tortured = self.output(*command, environment=self.environment | agent)
        self.assertEqual(tortured.stdout, plain, clean)
        found = [tuple(map(int, pair)) for pair in TORTURE.findall(tortured.stderr)]
        return zip(*[pair for pair in found if pair[0]])

    def test_cuda_bindings(self):
        self.compare(sys.executable, "-B", HERE / "work_bindings.py", least_calls=150, least_bytes=1 << 30)

    def test_cuda_core(self):
        self.compare(sys.executable, "-B", HERE / "work_core.py", least_calls=15, least_bytes=100 * MIB)

    def test_numba(self):
        command = (sys.executable, "-B", "-W", "ignore", HERE / "work_numba.py")
        self.compare(*command, least_calls=4, least_bytes=4 * MIB)

    def test_cudarc(self):
        self.compare(built("work-cudarc"), least_calls=45, least_bytes=512 * MIB)
