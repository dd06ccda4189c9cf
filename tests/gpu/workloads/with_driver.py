"""Plain driver calls: memory that comes and goes, sets and copies on several streams in an order that events keep."""

from __future__ import annotations

from driver import Cuda
from frameworks import Steps

MIB = 1 << 20


def steps(_device: str) -> Steps:
    """Each step writes every buffer from another, on a stream of its own."""
    yield b""
    cuda = Cuda()
    size = 2 * MIB + 4096
    buffers = [cuda.alloc(size) for _ in range(3)]
    streams = [cuda.stream() for _ in buffers]
    events = [cuda.event() for _ in buffers]
    for place, buffer in enumerate(buffers):
        cuda.fill(buffer, place + 1, size)
    cuda.synchronize()
    number = 0
    while True:
        number += 1
        more = cuda.alloc(size)
        for turn in range(6):
            here, there = turn % 3, (turn + 1) % 3
            cuda.fill(more, number * 7 + turn, size // 2, streams[here])
            cuda.copy(more + size // 2, buffers[there] + 4096, size // 2, streams[here])
            cuda.copy(buffers[here], more, size, streams[here])
            cuda.call("cuEventRecord", events[here], streams[here])
            cuda.call("cuStreamWaitEvent", streams[there], events[here], 0)
        found = b"".join(cuda.read(buffer, size) for buffer in buffers)
        cuda.free(more)
        yield found
