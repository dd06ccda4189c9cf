"""A workload of cuda-bindings: every kind of call that moves or changes memory, and a digest after each."""

import ctypes

from cuda.bindings import driver as cuda

from machine import MIB, Context, done
from work import KERNELS, Steps, pattern, place

# More than one chunk, and none of them whole.
SIZE = 5 * MIB + 12
WORDS = SIZE // 4
step = Steps()


class Gpu:
    """The context's stream, kernels and two buffers that live through all steps."""

    def __init__(self, device):
        self.device = device
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream, self.other = (done(cuda.cuStreamCreate(flags)) for _ in range(2))
        module = done(cuda.cuModuleLoadData(KERNELS.read_bytes() + b"\0"))
        names = "fill", "layer", "checksum"
        self.kernels = {name: done(cuda.cuModuleGetFunction(module, name.encode())) for name in names}
        self.a, self.b = (done(cuda.cuMemAlloc(SIZE)) for _ in range(2))

    def read(self, address, size=SIZE):
        back = bytearray(size)
        done(cuda.cuMemcpyDtoH(place(back), address, size))
        return bytes(back)

    def launch(self, name, *arguments, stream=None):
        """Integers only: 64 bits each, but for the seed of `fill`."""
        types = [ctypes.c_uint64] * len(arguments)
        if name == "fill":
            types[-1] = ctypes.c_uint32
        packed = tuple(int(argument) for argument in arguments), tuple(types)
        done(cuda.cuLaunchKernel(self.kernels[name], 8, 1, 1, 128, 1, 1, 0, stream or self.stream, packed, 0))


@step
def copies(gpu):
    data = pattern(SIZE, "copies")
    done(cuda.cuMemcpyHtoD(gpu.a, data, SIZE))
    done(cuda.cuMemcpyDtoD(gpu.b, gpu.a, SIZE))
    done(cuda.cuMemcpyHtoD(int(gpu.a) + 4097, data, 70_001))
    # Neither end of which lies on a boundary of anything.
    done(cuda.cuMemcpyDtoD(int(gpu.b) + 3, int(gpu.a) + 2 * MIB - 5, MIB + 11))
    return gpu.read(gpu.a) + gpu.read(gpu.b)


@step
def unified_copies(gpu):
    data, back = pattern(SIZE, "unified"), bytearray(SIZE)
    source = bytearray(data)
    done(cuda.cuMemcpy(gpu.a, place(source), SIZE))
    done(cuda.cuMemcpyAsync(gpu.b, gpu.a, SIZE, gpu.stream))
    done(cuda.cuMemcpyAsync(place(back), gpu.b, SIZE, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    return bytes(back)


@step
def copies_across_streams(gpu):
    data, back = pattern(SIZE, "across"), bytearray(SIZE)
    ready = done(cuda.cuEventCreate(0))
    for turn in range(4):
        first, second = (gpu.stream, gpu.other) if turn % 2 else (gpu.other, gpu.stream)
        done(cuda.cuMemcpyHtoDAsync(gpu.a, data[turn:] + data[:turn], SIZE, first))
        done(cuda.cuEventRecord(ready, first))
        done(cuda.cuStreamWaitEvent(second, ready, 0))
        done(cuda.cuMemcpyDtoDAsync(gpu.b, gpu.a, SIZE, second))
        done(cuda.cuMemcpyDtoHAsync(place(back), gpu.b, SIZE, second))
        done(cuda.cuStreamSynchronize(second))
    done(cuda.cuEventDestroy(ready))
    return bytes(back)


@step
def per_thread_stream(gpu):
    stream = cuda.CUstream(cuda.CU_STREAM_PER_THREAD)
    data, back = pattern(SIZE, "per thread"), bytearray(SIZE)
    done(cuda.cuMemcpyHtoDAsync(gpu.a, data, SIZE, stream))
    gpu.launch("layer", gpu.b, WORDS, gpu.a, WORDS, stream=stream)
    done(cuda.cuMemcpyDtoHAsync(place(back), gpu.b, SIZE, stream))
    done(cuda.cuStreamSynchronize(stream))
    return bytes(back)


@step
def sets(gpu):
    done(cuda.cuMemsetD8(gpu.a, 0x5A, SIZE))
    done(cuda.cuMemsetD16(int(gpu.a) + 2 * MIB - 2, 0xBEEF, 3))
    done(cuda.cuMemsetD32(int(gpu.a) + MIB, 0x01020304, 100))
    # Nothing else keeps what follows behind them: they return at once, and the stream waits for none.
    done(cuda.cuCtxSynchronize())
    done(cuda.cuMemsetD8Async(int(gpu.a) + SIZE - 1, 0xFF, 1, gpu.stream))
    done(cuda.cuMemsetD32Async(gpu.b, 0xC0FFEE, WORDS, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    return gpu.read(gpu.a) + gpu.read(gpu.b)


@step
def kernels(gpu):
    for seed in range(5):
        gpu.launch("fill", gpu.a, WORDS, seed)
        gpu.launch("layer", gpu.b, WORDS, gpu.a, WORDS)
    total = done(cuda.cuMemAlloc(8))
    done(cuda.cuMemsetD32Async(total, 0, 2, gpu.stream))
    gpu.launch("checksum", total, gpu.b, WORDS)
    done(cuda.cuStreamSynchronize(gpu.stream))
    words = gpu.read(total, 8)
    done(cuda.cuMemFree(total))
    return gpu.read(gpu.b) + words


@step
def objects_come_and_go(gpu):
    live, back = [], []
    for turn in range(12):
        size = 300_000 + 77_777 * turn
        address = done(cuda.cuMemAlloc(size))
        done(cuda.cuMemcpyHtoD(address, pattern(size, turn), size))
        live.append((address, size))
        if turn % 3 == 2:
            address, size = live.pop(turn % 2)
            back.append(gpu.read(address, size))
            done(cuda.cuMemFree(address))
    for address, size in live:
        back.append(gpu.read(address, size))
        done(cuda.cuMemFree(address))
    return b"".join(back)


@step
def stream_ordered(gpu):
    back = bytearray(SIZE)
    for turn in range(6):
        address = done(cuda.cuMemAllocAsync(SIZE, gpu.stream))
        gpu.launch("fill", address, WORDS, turn)
        gpu.launch("layer", address, WORDS, gpu.a, WORDS)
        done(cuda.cuMemcpyDtoHAsync(place(back), address, SIZE, gpu.stream))
        done(cuda.cuMemFreeAsync(address, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    return bytes(back)


@step
def pool(gpu):
    properties = cuda.CUmemPoolProps()
    properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(gpu.device)
    made = done(cuda.cuMemPoolCreate(properties))
    address = done(cuda.cuMemAllocFromPoolAsync(SIZE, made, gpu.stream))
    done(cuda.cuMemcpyHtoDAsync(address, pattern(SIZE, "pool"), SIZE, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    back = gpu.read(address)
    done(cuda.cuMemFreeAsync(address, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    done(cuda.cuMemPoolTrimTo(made, 0))
    done(cuda.cuMemPoolDestroy(made))
    return back


@step
def own_mappings(gpu):
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = int(gpu.device)
    access = cuda.CUmemAccessDesc()
    access.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access.location.id = int(gpu.device)
    access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    piece = 2 * MIB
    base, other = (done(cuda.cuMemAddressReserve(3 * piece, 0, cuda.CUdeviceptr(0), 0)) for _ in range(2))
    pieces = [done(cuda.cuMemCreate(piece, properties, 0)) for _ in range(3)]
    for index, handle in enumerate(pieces):
        done(cuda.cuMemMap(int(base) + index * piece, piece, 0, handle, 0))
    done(cuda.cuMemSetAccess(base, 3 * piece, [access], 1))
    done(cuda.cuMemcpyHtoD(base, pattern(3 * piece, "mappings"), 3 * piece))
    gpu.launch("layer", base, WORDS, gpu.a, WORDS)
    done(cuda.cuStreamSynchronize(gpu.stream))
    back = gpu.read(base, 3 * piece)
    # Elsewhere and the other way round: it is the piece that has the data.
    done(cuda.cuMemUnmap(base, 3 * piece))
    for index, handle in enumerate(reversed(pieces)):
        done(cuda.cuMemMap(int(other) + index * piece, piece, 0, handle, 0))
        done(cuda.cuMemRelease(handle))
    done(cuda.cuMemSetAccess(other, 3 * piece, [access], 1))
    back += gpu.read(other, 3 * piece)
    done(cuda.cuMemUnmap(other, 3 * piece))
    for address in base, other:
        done(cuda.cuMemAddressFree(address, 3 * piece))
    return back


@step
def pitched(gpu):
    width, height = 1000, 700
    address, pitch = done(cuda.cuMemAllocPitch(width, height, 4))
    rows = [pattern(width, row) for row in range(height)]
    for row, data in enumerate(rows[:40]):
        done(cuda.cuMemcpyHtoD(int(address) + row * pitch, data, width))
    back = b"".join(gpu.read(int(address) + row * pitch, width) for row in range(40))
    done(cuda.cuMemFree(address))
    return back


@step
def two_dimensional_copies(gpu):
    width, height = 1000, 300
    address, pitch = done(cuda.cuMemAllocPitch(width, height, 4))
    data, back = bytearray(pattern(width * height, "2d")), bytearray(width * height)
    copy = cuda.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = width, height
    copy.srcMemoryType, copy.srcHost, copy.srcPitch = cuda.CUmemorytype.CU_MEMORYTYPE_HOST, place(data), width
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE, address, pitch
    done(cuda.cuMemcpy2D(copy))
    done(cuda.cuMemsetD2D8(int(address) + 10, pitch, 0x77, 20, 30))
    copy = cuda.CUDA_MEMCPY2D()
    copy.WidthInBytes, copy.Height = width, height
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch = cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE, address, pitch
    copy.dstMemoryType, copy.dstHost, copy.dstPitch = cuda.CUmemorytype.CU_MEMORYTYPE_HOST, place(back), width
    done(cuda.cuMemcpy2D(copy))
    done(cuda.cuMemFree(address))
    return bytes(back)


@step
def managed(gpu):
    flags = cuda.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    address = done(cuda.cuMemAllocManaged(SIZE, flags))
    done(cuda.cuMemcpyHtoD(address, pattern(SIZE, "managed"), SIZE))
    gpu.launch("layer", address, WORDS, gpu.a, WORDS)
    done(cuda.cuStreamSynchronize(gpu.stream))
    back = gpu.read(address)
    done(cuda.cuMemFree(address))
    return back


@step
def captured(gpu):
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    done(cuda.cuMemcpyHtoD(gpu.a, pattern(SIZE, "captured"), SIZE))
    done(cuda.cuStreamBeginCapture(gpu.stream, mode))
    gpu.launch("layer", gpu.b, WORDS, gpu.a, WORDS)
    done(cuda.cuMemcpyDtoDAsync(gpu.a, gpu.b, SIZE, gpu.stream))
    done(cuda.cuMemsetD32Async(int(gpu.a) + MIB, 5, 1000, gpu.stream))
    graph = done(cuda.cuStreamEndCapture(gpu.stream))
    ready = done(cuda.cuGraphInstantiate(graph, 0))
    for _ in range(4):
        done(cuda.cuGraphLaunch(ready, gpu.stream))
    done(cuda.cuStreamSynchronize(gpu.stream))
    done(cuda.cuGraphExecDestroy(ready))
    done(cuda.cuGraphDestroy(graph))
    return gpu.read(gpu.a) + gpu.read(gpu.b)


if __name__ == "__main__":
    with Context() as device:
        step.run(Gpu(device))
