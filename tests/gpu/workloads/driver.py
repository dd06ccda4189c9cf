"""The CUDA driver by ctypes: programs that need no framework, so that they also run on the simulated GPU."""

from __future__ import annotations

import ctypes
import time
from typing import Any, List, Tuple


class CudaError(Exception):
    """A call of the driver failed."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProp(ctypes.Structure):
    # CUmemAllocationProp of cuda.h: type, handle types, location, win32 attributes, flags.
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 32),
    ]


class _AccessDesc(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


DEVICE, PINNED, READ_WRITE = 1, 1, 3


class Cuda:
    """GPU 0's primary context, current in this thread."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def has(self, name: str) -> bool:
        """Whether the driver has this function."""
        return hasattr(self._library, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of cuda.h."""
        status = getattr(self._library, name)(*arguments)
        if status != 0:
            raise CudaError(f"{name}: CUresult {status}")

    def info(self) -> Tuple[int, int]:
        """Free and all bytes of the GPU."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def alloc(self, size: int) -> int:
        """Plain device memory; its address."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        """Gives it back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def pinned(self, size: int) -> int:
        """Pinned host memory; its address."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return address.value or 0

    def fill(self, address: int, word: int, size: int, stream: Any = None) -> None:
        """Sets 32-bit words, in the stream's order."""
        self.call("cuMemsetD32Async", ctypes.c_uint64(address), ctypes.c_uint(word), ctypes.c_size_t(size // 4), stream)

    def copy(self, to: int, of: int, size: int, stream: Any = None) -> None:
        """Copies between any two places, in the stream's order."""
        self.call("cuMemcpyAsync", ctypes.c_uint64(to), ctypes.c_uint64(of), ctypes.c_size_t(size), stream)

    def read(self, address: int, size: int) -> bytes:
        """Device memory, once all that was to write it has."""
        self.synchronize()
        there = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", there, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return there.raw

    def stream(self) -> ctypes.c_void_p:
        """A stream that does not wait for the legacy one."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def event(self) -> ctypes.c_void_p:
        """An event without time."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 2)
        return event

    def synchronize(self) -> None:
        """Waits for all of the context."""
        self.call("cuCtxSynchronize")

    def chunk_us(self, size: int, times: int) -> Tuple[float, float]:
        """What making and mapping a chunk takes, and what unmapping and releasing it does: of so many, nine in ten take less."""
        prop = _AllocationProp(type=PINNED, location=_Location(DEVICE, 0))
        access = _AccessDesc(_Location(DEVICE, 0), READ_WRITE)
        at, handle = ctypes.c_uint64(), ctypes.c_uint64()
        length, zero = ctypes.c_size_t(size), ctypes.c_size_t(0)
        none = ctypes.c_ulonglong(0)
        self.call("cuMemAddressReserve", ctypes.byref(at), length, zero, ctypes.c_uint64(0), none)
        made: List[float] = []
        gone: List[float] = []
        for _ in range(times):
            start = time.monotonic()
            self.call("cuMemCreate", ctypes.byref(handle), length, ctypes.byref(prop), none)
            self.call("cuMemMap", at, length, zero, handle, none)
            self.call("cuMemSetAccess", at, length, ctypes.byref(access), ctypes.c_size_t(1))
            middle = time.monotonic()
            self.call("cuMemUnmap", at, length)
            self.call("cuMemRelease", handle)
            made.append(middle - start)
            gone.append(time.monotonic() - middle)
        self.call("cuMemAddressFree", at, length)
        # The longest of few is chance, and a swap has hundreds.
        return sorted(made)[times * 9 // 10] * 1e6, sorted(gone)[times * 9 // 10] * 1e6

    def gib_per_s(self, size: int, times: int) -> Tuple[float, float]:
        """Pinned copies to the host and from it, both at once; of so many, nine in ten are faster."""
        places = [(self.alloc(size), self.pinned(size), self.stream()) for _ in range(2)]
        (out, host_out, first), (into, host_in, second) = places
        rates: List[float] = []
        for _ in range(times + 1):
            start = time.monotonic()
            self.copy(host_out, out, size, first)
            self.copy(into, host_in, size, second)
            self.synchronize()
            rates.append(size / (time.monotonic() - start) / (1 << 30))
        for device, host, stream in places:
            self.free(device)
            self.call("cuMemFreeHost", ctypes.c_void_p(host))
            self.call("cuStreamDestroy_v2", stream)
        # The first one warms up. Both took as long as the slower of them.
        rate = sorted(rates[1:])[times // 10]
        return rate, rate
