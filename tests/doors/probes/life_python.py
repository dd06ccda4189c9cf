# A Python program with signal handlers of its own, an event loop, or NVML by ctypes; the argument says
# which.
import asyncio, ctypes, os, signal, sys, threading, time

WORDS = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def must(status):
    if status != 0:
        sys.exit(f"status {status}")


def ready():
    print("ready", 4 * WORDS, flush=True)
    os.read(0, 3)


def start():
    context, at = ctypes.c_void_p(), ctypes.c_uint64()
    must(cuda.cuInit(0))
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(cuda.cuCtxSetCurrent(context))
    must(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4 * WORDS)))
    must(cuda.cuMemsetD32_v2(at, 7, ctypes.c_size_t(WORDS)))
    must(cuda.cuCtxSynchronize())
    return at


def check(at):
    host = (ctypes.c_uint32 * WORDS)()
    must(cuda.cuMemcpyDtoH_v2(host, at, ctypes.c_size_t(4 * WORDS)))
    assert all(word == 7 for word in host[:: WORDS // 256])


received = {signal.SIGUSR1: 0, signal.SIGUSR2: 0}


def on_signal(number, frame=None):
    received[number] += 1


def send(number):
    before = received[number]
    os.kill(os.getpid(), number)
    return before


def handlers():
    for number in received:
        signal.signal(number, on_signal)
    at = start()
    for turn in range(3):
        for number in received:
            for _ in range(100):
                before = send(number)
                while received[number] == before:
                    time.sleep(0.0001)
        ready()
        check(at)


async def loop():
    running = asyncio.get_running_loop()
    for number in received:
        running.add_signal_handler(number, on_signal, number)
    at = start()
    for turn in range(3):
        for number in received:
            for _ in range(50):
                before = send(number)
                while received[number] == before:
                    await asyncio.sleep(0.0001)
        await running.run_in_executor(None, ready)
        check(at)


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("total", "free", "used")]


def nvml():
    library = ctypes.CDLL("libnvidia-ml.so.1")
    device, memory = ctypes.c_void_p(), Memory()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    at = start()
    must(library.nvmlInit_v2())
    must(library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    ready()
    must(library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)))
    must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    said = (memory.total, memory.free, memory.used)
    assert said == (total.value, free.value, total.value - free.value), said
    check(at)


if sys.argv[1] == "python":
    handlers()
elif sys.argv[1] == "python_nvml":
    nvml()
else:
    asyncio.run(loop())
print(received[signal.SIGUSR1], received[signal.SIGUSR2])
print("ok", flush=True)
