/* NVML's memory info where a program or a library is linked against NVML. */
#include "nvml.h"

unsigned nvmlDeviceGetMemoryInfo(nvmlDevice device, void *memory);
unsigned nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, void *memory);

static void program(void) {
    start();
    by(device_of(nvml(RTLD_LOCAL), 0), nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2);
}

static void of_library(int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libmonitor.so", getenv("DOORS_FOLDER"));
    start();
    void *library = dlopen(path, RTLD_NOW | flags);
    CHECK(library);
    nvmlDevice device = device_of(nvml(RTLD_LOCAL), 0);
    by(device, (asker)dlsym(library, "monitor_first"), (asker)dlsym(library, "monitor_second"));
}

static void library(void) { of_library(RTLD_LOCAL); }

static void deepbind(void) { of_library(RTLD_DEEPBIND); }

PROBES({"program", program}, {"library", library}, {"deepbind", deepbind})
