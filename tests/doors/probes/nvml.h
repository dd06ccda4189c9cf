/* NVML's questions about a GPU's memory, asked while the program's memory is out. */
#ifndef NVML_H
#define NVML_H

#include "probe.h"

enum { BYTES = 3 * MIB };

typedef void *nvmlDevice;
typedef unsigned (*asker)(nvmlDevice, void *);

typedef struct {
    unsigned long long total, free, used;
} memory_v1;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

static const unsigned VERSION_2 = sizeof(memory_v2) | 2u << 24;

static CUdeviceptr at;

static void *nvml(int flags) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(4);
    }
    return library;
}

static nvmlDevice device_of(void *library, CUdevice number) {
    char bus[32];
    nvmlDevice device;
    unsigned (*init)(void) = (unsigned (*)(void))dlsym(library, "nvmlInit_v2");
    unsigned (*find)(const char *, nvmlDevice *) =
        (unsigned (*)(const char *, nvmlDevice *))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    MUST(CU(cuDeviceGetPCIBusId, char *, int, CUdevice)(bus, sizeof bus, number));
    CHECK(init() == 0 && find(bus, &device) == 0);
    return device;
}

/* Holds memory, which is then taken away. */
static void hold(void) {
    at = alloc(BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
}

/* Asks by these functions of NVML for what cuMemGetInfo says. */
static void by(nvmlDevice device, asker first, asker second) {
    size_t left, total;
    memory_v1 one = {0};
    memory_v2 two = {.version = VERSION_2};
    CHECK(first && second);
    hold();
    MUST(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total));
    MUST(first(device, &one));
    MUST(second(device, &two));
    /* A bare NVML also counts what CUDA cannot have. */
    if (getenv("LD_PRELOAD")) {
        CHECK(one.total == total && one.free == left && one.used == total - left);
    }
    CHECK(two.total == one.total && two.free == one.free && two.used <= one.used);
    answered();
    check(at, BYTES, 1);
}

#endif
