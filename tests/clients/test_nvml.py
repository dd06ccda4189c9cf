"""nvidia-ml-py: what it shows is what the simulated machine counts."""

import inspect
import os
import time
import unittest

import pynvml as nvml
from cuda.bindings import driver as cuda

from machine import CONTEXT_BYTES, MIB, Context, Program, done, used_bytes, wait_until

# Released after this driver, which therefore does not have them.
NEWER = "_v1 _v2 VgpuForceGspUnload".split()


class Nvml(unittest.TestCase):
    def setUp(self):
        nvml.nvmlInit()
        self.addCleanup(nvml.nvmlShutdown)
        self.gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        wait_until("all is free again", lambda: self.used() == 0)

    def tearDown(self):
        # What the dead held is used for a while, and whoever comes next counts.
        wait_until("all is free again", lambda: self.used() == 0)

    def used(self):
        return nvml.nvmlDeviceGetMemoryInfo(self.gpu).used

    def running(self, version=""):
        get = getattr(nvml, f"nvmlDeviceGetComputeRunningProcesses{version}")
        return {process.pid: process.usedGpuMemory for process in get(self.gpu)}

    def test_identity_is_what_cuda_says(self):
        self.assertEqual(nvml.nvmlDeviceGetCount(), 2)
        self.assertEqual(nvml.nvmlSystemGetCudaDriverVersion(), 12080)
        for index in range(2):
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            with Context():
                name = done(cuda.cuDeviceGetName(64, index)).rstrip(b"\0 ").decode()
                uuid = bytes(done(cuda.cuDeviceGetUuid(index)).bytes).hex()
                bus = done(cuda.cuDeviceGetPCIBusId(32, index)).split(b"\0")[0].decode()
            self.assertEqual(nvml.nvmlDeviceGetName(gpu), name)
            self.assertEqual(nvml.nvmlDeviceGetUUID(gpu).replace("-", ""), "GPU" + uuid)
            self.assertEqual(nvml.nvmlDeviceGetPciInfo(gpu).busId, "0000" + bus)
            self.assertEqual(nvml.nvmlDeviceGetIndex(gpu), index)
            found = nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(gpu))
            self.assertEqual(nvml.nvmlDeviceGetIndex(found), index)

    def test_both_versions_of_memory_agree(self):
        with Program.holding("16MiB"):
            one = nvml.nvmlDeviceGetMemoryInfo(self.gpu)
            two = nvml.nvmlDeviceGetMemoryInfo(self.gpu, version=nvml.nvmlMemory_v2)
        self.assertEqual(one.total, 256 * MIB)
        self.assertEqual((two.total, two.free, two.used), (one.total, one.free, one.used))
        self.assertEqual(two.reserved + two.free + two.used, two.total)
        with self.assertRaises(nvml.NVMLError) as raised:
            nvml.nvmlDeviceGetMemoryInfo(self.gpu, version=nvml.nvmlMemory_v2 + 1)
        self.assertEqual(raised.exception.value, 25, "a wrong version is an argument version mismatch")

    def test_what_processes_hold_is_exact_to_the_byte(self):
        # Against the change that each makes to what cuMemGetInfo tells of the GPU.
        with Context():
            before = used_bytes()
            with Program.holding("32MiB") as first:
                first_bytes = used_bytes() - before
                with Program.holding("50MiB") as second:
                    second_bytes = used_bytes() - before - first_bytes
                    address = done(cuda.cuMemAlloc(3 * MIB))
                    own_bytes = CONTEXT_BYTES + 4 * MIB
                    wanted = {first.pid: first_bytes, second.pid: second_bytes, os.getpid(): own_bytes}
                    for version in "", "_v2", "_v3":
                        self.assertEqual(self.running(version), wanted)
                    self.assertEqual(self.used(), used_bytes())
                    self.assertEqual(self.used(), sum(wanted.values()))
                    done(cuda.cuMemFree(address))
            # Weights and context, and a granule for all that is small.
            self.assertEqual(first_bytes, 32 * MIB + CONTEXT_BYTES + 2 * MIB)

    def test_the_dead_are_not_shown_and_their_memory_is_used_until_given_back(self):
        with Program.holding("16MiB") as program:
            held = self.running()[program.pid]
        death = time.monotonic()
        # The first look finds it dead; from then on the time runs in which its memory is used.
        self.assertGreaterEqual(self.used(), held)
        self.assertNotIn(program.pid, self.running())
        wait_until("the memory comes back", lambda: self.used() == 0)
        self.assertGreaterEqual(time.monotonic() - death, 0.25)

    def test_utilisation_is_above_0_while_kernels_run_and_0_when_idle(self):
        def rates():
            return nvml.nvmlDeviceGetUtilizationRates(self.gpu)

        wait_until("nothing is left of other tests", lambda: rates().gpu == 0)
        with Program.computing("20MiB") as program, Program.holding("2MiB") as idle:
            wait_until("kernels show", lambda: rates().gpu >= 20)
            both = rates()
            self.assertGreaterEqual(both.memory, both.gpu)
            samples = {s.pid: s.smUtil for s in nvml.nvmlDeviceGetProcessUtilization(self.gpu, 0)}
            self.assertGreater(samples[program.pid], 0)
            self.assertLessEqual(samples.get(idle.pid, 0), samples[program.pid])
        wait_until("the GPU is idle", lambda: rates().gpu == 0)
        other = nvml.nvmlDeviceGetHandleByIndex(1)
        self.assertEqual(nvml.nvmlDeviceGetUtilizationRates(other).gpu, 0)

    def test_every_question_about_a_gpu_is_answered_or_not_supported(self):
        asked = answered = 0
        for name, function in vars(nvml).items():
            if not (name.startswith("nvmlDeviceGet") and inspect.isfunction(function)):
                continue
            parameters = inspect.signature(function).parameters.values()
            wanted = [each for each in parameters if each.default is each.empty]
            if [each.name for each in wanted] not in (["handle"], ["device"]):
                continue
            asked += 1
            try:
                function(self.gpu)
                answered += 1
            except nvml.NVMLError_NotSupported:
                pass
            except nvml.NVMLError_FunctionNotFound:
                self.assertTrue(name.endswith(tuple(NEWER)), name)
        self.assertGreater(asked, 80)
        self.assertGreaterEqual(answered, 20)

    def test_misuse_is_refused_with_a_text(self):
        with self.assertRaises(nvml.NVMLError_InvalidArgument):
            nvml.nvmlDeviceGetHandleByIndex(2)
        with self.assertRaises(nvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetHandleByUUID("GPU-of-another-machine")
        with self.assertRaises(nvml.NVMLError_NotSupported) as raised:
            nvml.nvmlDeviceGetTemperature(self.gpu, nvml.NVML_TEMPERATURE_GPU)
        self.assertEqual(nvml.nvmlErrorString(raised.exception.value), "Not Supported")
        nvml.nvmlInit()
        nvml.nvmlShutdown()
        self.assertEqual(nvml.nvmlDeviceGetIndex(self.gpu), 0, "the last shutdown ends it, no other")


class Uninitialized(unittest.TestCase):
    def test_nothing_is_told_before_init(self):
        nvml.nvmlInit()
        nvml.nvmlShutdown()
        for question in nvml.nvmlDeviceGetCount, nvml.nvmlSystemGetDriverVersion:
            with self.assertRaises(nvml.NVMLError_Uninitialized):
                question()
