"""A workload of cuda.core: what Python programs write that never see the driver."""

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch

from machine import MIB
from work import KERNELS, Steps, pattern

SIZE = 3 * MIB + 8
step = Steps()


class Gpu:
    """The device, a stream, host buffers to copy through, and a buffer that lives through all steps."""

    def __init__(self):
        self.device = Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()
        pinned = LegacyPinnedMemoryResource()
        self.source, self.target = (pinned.allocate(SIZE) for _ in range(2))
        self.buffer = self.device.allocate(SIZE, stream=self.stream)

    def write(self, buffer, data):
        view = np.from_dlpack(self.source).view(np.uint8)
        view[: len(data)] = np.frombuffer(data, np.uint8)
        buffer.copy_from(self.source, stream=self.stream)

    def read(self, buffer):
        buffer.copy_to(self.target, stream=self.stream)
        self.stream.sync()
        return np.from_dlpack(self.target).tobytes()


@step
def buffers(gpu):
    gpu.write(gpu.buffer, pattern(SIZE, "buffers"))
    other = gpu.device.allocate(SIZE, stream=gpu.stream)
    other.copy_from(gpu.buffer, stream=gpu.stream)
    gpu.buffer.fill(0x42, stream=gpu.stream)
    back = gpu.read(gpu.buffer) + gpu.read(other)
    other.close(gpu.stream)
    return back


@step
def buffers_come_and_go(gpu):
    back = b""
    for turn in range(6):
        buffer = gpu.device.allocate(SIZE, stream=gpu.stream)
        gpu.write(buffer, pattern(SIZE, turn))
        back += gpu.read(buffer)[turn::7]
        buffer.close(gpu.stream)
    return back


@step
def events_and_streams(gpu):
    other = gpu.device.create_stream()
    gpu.write(gpu.buffer, pattern(SIZE, "events"))
    written = gpu.stream.record()
    other.wait(written)
    gpu.buffer.copy_to(gpu.target, stream=other)
    other.record().sync()
    return np.from_dlpack(gpu.target).tobytes()


@step
def kernels(gpu):
    code = ObjectCode.from_ptx(KERNELS.read_bytes())
    fill = code.get_kernel("fill")
    for seed in range(3):
        launch(gpu.stream, LaunchConfig(grid=4, block=128), fill, gpu.buffer, np.uint64(SIZE // 4), np.uint32(seed))
    return gpu.read(gpu.buffer)


@step
def graphs(gpu):
    code = ObjectCode.from_ptx(KERNELS.read_bytes())
    layer, words = code.get_kernel("layer"), np.uint64(SIZE // 4)
    builder = gpu.device.create_graph_builder().begin_building()
    launch(builder, LaunchConfig(grid=4, block=128), layer, gpu.buffer, words, gpu.buffer, words)
    graph = builder.end_building().complete()
    for _ in range(3):
        graph.launch(gpu.stream)
    gpu.stream.sync()
    return gpu.read(gpu.buffer)


if __name__ == "__main__":
    step.run(Gpu())
