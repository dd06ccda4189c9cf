/* A shared library that is linked against NVML. */
unsigned nvmlDeviceGetMemoryInfo(void *device, void *memory);
unsigned nvmlDeviceGetMemoryInfo_v2(void *device, void *memory);

unsigned monitor_first(void *device, void *memory) {
    return nvmlDeviceGetMemoryInfo(device, memory);
}

unsigned monitor_second(void *device, void *memory) {
    return nvmlDeviceGetMemoryInfo_v2(device, memory);
}
