"""cuda-bindings: the driver's calls do what they do on silicon."""

import ctypes
import pathlib
import random
import unittest

from cuda.bindings import driver as cuda

from machine import CONTEXT_BYTES, GRANULE, MIB, Context, done, used_bytes

PTX = pathlib.Path(__file__).parents[2] / "demo" / "dnn" / "src" / "kernels.ptx"
Code = cuda.CUresult


def pattern(size, seed):
    """Bytes that no other seed gives, and a place to read them back to."""
    return random.Random(seed).randbytes(size), bytearray(size)


def pinned_on(device):
    """cuMemCreate's properties for memory of a GPU."""
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = int(device)
    return prop


def read_write(device):
    """cuMemSetAccess's description of full access from a GPU."""
    access = cuda.CUmemAccessDesc()
    access.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = int(device)
    access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return access


class Driver(unittest.TestCase):
    def setUp(self):
        context = Context()
        self.device = context.__enter__()
        self.addCleanup(context.__exit__)
        self.before = used_bytes()

    def read(self, address, size):
        back = bytearray(size)
        done(cuda.cuMemcpyDtoH(place(back), address, size))
        return bytes(back)

    def refuses(self, code, result):
        self.assertEqual(result[0], code)

    def test_vmm_round_trip_keeps_data_under_another_address(self):
        prop = pinned_on(self.device)
        minimum = cuda.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        chunk = done(cuda.cuMemGetAllocationGranularity(prop, minimum))
        self.assertEqual(chunk, GRANULE)
        size = 4 * chunk
        data = [pattern(chunk, seed)[0] for seed in range(4)]
        base = done(cuda.cuMemAddressReserve(size, 0, cuda.CUdeviceptr(0), 0))
        other = done(cuda.cuMemAddressReserve(size, 0, cuda.CUdeviceptr(0), 0))
        self.assertEqual(used_bytes(), self.before, "addresses are no memory")
        chunks = [done(cuda.cuMemCreate(chunk, prop, 0)) for _ in data]
        self.assertEqual(used_bytes(), self.before + size)
        for index, handle in enumerate(chunks):
            done(cuda.cuMemMap(int(base) + index * chunk, chunk, 0, handle, 0))
        self.refuses(Code.CUDA_ERROR_INVALID_VALUE, cuda.cuMemcpyHtoD(base, data[0], chunk))
        done(cuda.cuMemSetAccess(base, size, [read_write(self.device)], 1))
        done(cuda.cuMemcpyHtoD(base, b"".join(data), size))
        self.assertEqual(self.read(base, size), b"".join(data))

        done(cuda.cuMemUnmap(base, size))
        self.refuses(Code.CUDA_ERROR_INVALID_VALUE, cuda.cuMemcpyHtoD(base, data[0], chunk))
        # Elsewhere and the other way round: it is the chunk that has the data.
        for index, handle in enumerate(reversed(chunks)):
            done(cuda.cuMemMap(int(other) + index * chunk, chunk, 0, handle, 0))
        done(cuda.cuMemSetAccess(other, size, [read_write(self.device)], 1))
        self.assertEqual(self.read(other, size), b"".join(reversed(data)))

        for handle in chunks:
            done(cuda.cuMemRelease(handle))
        self.assertEqual(used_bytes(), self.before + size, "what is mapped stays")
        done(cuda.cuMemUnmap(other, size))
        self.assertEqual(used_bytes(), self.before)
        for address in base, other:
            done(cuda.cuMemAddressFree(address, size))

    def test_memory_streams_and_events(self):
        size = 5 * MIB
        data, back = pattern(size, "copies")
        one, two = (done(cuda.cuMemAlloc(size)) for _ in range(2))
        self.assertEqual(used_bytes(), self.before + 2 * 6 * MIB)
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        first, second = (done(cuda.cuStreamCreate(flags)) for _ in range(2))
        start, end = (done(cuda.cuEventCreate(0)) for _ in range(2))
        done(cuda.cuEventRecord(start, first))
        done(cuda.cuMemcpyHtoDAsync(one, data, size, first))
        done(cuda.cuEventRecord(end, first))
        done(cuda.cuStreamWaitEvent(second, end, 0))
        done(cuda.cuMemcpyDtoDAsync(two, one, size, second))
        done(cuda.cuMemsetD32Async(one, 0x01020304, size // 4, second))
        done(cuda.cuMemcpyDtoHAsync(place(back), two, size, second))
        done(cuda.cuStreamSynchronize(second))
        self.assertEqual(bytes(back), data)
        self.assertEqual(self.read(one, size), b"\x04\x03\x02\x01" * (size // 4))
        self.refuses(Code.CUDA_SUCCESS, cuda.cuStreamQuery(first))
        # 5 MiB at the modelled rate of 11.18 GiB/s over 32.
        self.assertGreater(done(cuda.cuEventElapsedTime(start, end)), 13.9)
        for stream in first, second:
            done(cuda.cuStreamDestroy(stream))
        for event in start, end:
            done(cuda.cuEventDestroy(event))
        for address in one, two:
            done(cuda.cuMemFree(address))
        self.assertEqual(used_bytes(), self.before)

    def test_a_kernel_computes(self):
        module = done(cuda.cuModuleLoadData(PTX.read_bytes() + b"\0"))
        fill = done(cuda.cuModuleGetFunction(module, b"fill"))
        count = 1000
        address = done(cuda.cuMemAlloc(4 * count))
        values = int(address), count, 7
        types = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32
        done(cuda.cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, 0, (values, types), 0))
        done(cuda.cuCtxSynchronize())
        words = memoryview(self.read(address, 4 * count)).cast("I")
        self.assertEqual(list(words), [mix(index + 7 * 0x9E3779B9) for index in range(count)])
        self.refuses(Code.CUDA_ERROR_NOT_FOUND, cuda.cuModuleGetFunction(module, b"no_such"))
        done(cuda.cuMemFree(address))
        done(cuda.cuModuleUnload(module))

    def test_misuse_has_the_drivers_codes(self):
        prop = pinned_on(self.device)
        invalid = Code.CUDA_ERROR_INVALID_VALUE
        handle = done(cuda.cuMemCreate(GRANULE, prop, 0))
        base = done(cuda.cuMemAddressReserve(2 * GRANULE, 0, cuda.CUdeviceptr(0), 0))
        past = int(base) + 2 * GRANULE
        self.refuses(invalid, cuda.cuMemCreate(GRANULE - 1, prop, 0))
        self.refuses(Code.CUDA_ERROR_OUT_OF_MEMORY, cuda.cuMemCreate(256 * MIB, prop, 0))
        self.refuses(Code.CUDA_ERROR_OUT_OF_MEMORY, cuda.cuMemAlloc(256 * MIB))
        self.refuses(invalid, cuda.cuMemAlloc(0))
        self.refuses(invalid, cuda.cuMemFree(past))
        self.refuses(Code.CUDA_ERROR_NOT_SUPPORTED, cuda.cuMemMap(base, GRANULE, 4096, handle, 0))
        self.refuses(invalid, cuda.cuMemMap(past, GRANULE, 0, handle, 0))
        # Where nothing is mapped there is nothing to take away: driver 580.159 calls that success.
        done(cuda.cuMemUnmap(base, GRANULE))
        self.refuses(invalid, cuda.cuMemSetAccess(base, GRANULE, [read_write(self.device)], 1))
        done(cuda.cuMemMap(base, GRANULE, 0, handle, 0))
        self.refuses(invalid, cuda.cuMemMap(base, GRANULE, 0, handle, 0))
        self.assertNotEqual(cuda.cuMemAddressFree(base, 2 * GRANULE)[0], Code.CUDA_SUCCESS)
        done(cuda.cuMemUnmap(base, GRANULE))
        done(cuda.cuMemRelease(handle))
        self.refuses(invalid, cuda.cuMemRelease(handle))
        done(cuda.cuMemAddressFree(base, 2 * GRANULE))
        self.refuses(Code.CUDA_ERROR_INVALID_DEVICE, cuda.cuDeviceGet(2))
        self.refuses(Code.CUDA_ERROR_NOT_SUPPORTED, cuda.cuLinkCreate(0, [], []))
        self.assertEqual(used_bytes(), self.before)


class Contexts(unittest.TestCase):
    def test_a_context_is_needed_and_takes_its_share(self):
        done(cuda.cuInit(0))
        self.assertEqual(cuda.cuMemAlloc(MIB)[0], Code.CUDA_ERROR_INVALID_CONTEXT)
        with Context() as device:
            before = used_bytes()
            context = done(cuda.cuCtxCreate(0, device))
            self.assertEqual(used_bytes(), before + CONTEXT_BYTES)
            done(cuda.cuCtxDestroy(context))
            done(cuda.cuCtxSetCurrent(done(cuda.cuDevicePrimaryCtxRetain(device))))
            self.assertEqual(used_bytes(), before)
            done(cuda.cuDevicePrimaryCtxRelease(device))


def place(buffer):
    """The address of a buffer's bytes."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def mix(x):
    """The finaliser that the kernel applies to each word's key."""
    x &= 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16
