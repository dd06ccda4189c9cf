/* NVML's memory info by each way of dlsym, and what is asked of it besides. */
#include "nvml.h"

#define FIRST "nvmlDeviceGetMemoryInfo"
#define SECOND "nvmlDeviceGetMemoryInfo_v2"

static void handle(void) {
    start();
    void *library = nvml(RTLD_LOCAL);
    by(device_of(library, 0), (asker)dlsym(library, FIRST), (asker)dlsym(library, SECOND));
}

static void by_default(void) {
    start();
    void *library = nvml(RTLD_GLOBAL);
    by(device_of(library, 0), (asker)dlsym(RTLD_DEFAULT, FIRST), (asker)dlsym(RTLD_DEFAULT, SECOND));
}

static void next(void) {
    start();
    void *library = nvml(RTLD_GLOBAL);
    by(device_of(library, 0), (asker)dlsym(RTLD_NEXT, FIRST), (asker)dlsym(RTLD_NEXT, SECOND));
}

/* Handles are new after each nvmlInit, which may come before CUDA starts. */
static void again(void) {
    void *library = nvml(RTLD_LOCAL);
    asker first = (asker)dlsym(library, FIRST);
    unsigned (*init)(void) = (unsigned (*)(void))dlsym(library, "nvmlInit_v2");
    unsigned (*shutdown)(void) = (unsigned (*)(void))dlsym(library, "nvmlShutdown");
    CHECK(init() == 0);
    start();
    for (int turn = 0; turn < 2; turn++) {
        by(device_of(library, 0), first, (asker)dlsym(library, SECOND));
        release(at);
        CHECK(shutdown() == 0);
    }
}

/* A library that may use NVML and does not load it: nothing of it is loaded for its sake. */
static void absent(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libneighbour.so", getenv("DOORS_FOLDER"));
    start();
    void *neighbour = dlopen(path, RTLD_LAZY);
    CHECK(neighbour);
    asker maybe = ((asker(*)(void))dlsym(neighbour, "neighbour_memory_info"))();
    CHECK(!dlsym(RTLD_DEFAULT, FIRST));
    if (maybe) CHECK(maybe(NULL, NULL) == 13);
    CHECK(!dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD));
    void *library = nvml(RTLD_GLOBAL);
    asker first = maybe ? maybe : (asker)dlsym(library, FIRST);
    by(device_of(library, 0), first, (asker)dlsym(library, SECOND));
}

/* Errors, and a GPU without a session. */
static void strangers(void) {
    memory_v1 one = {7, 7, 7};
    memory_v2 two = {VERSION_2 + 1, 7, 7, 7, 7};
    start();
    void *library = nvml(RTLD_LOCAL);
    asker first = (asker)dlsym(library, FIRST), second = (asker)dlsym(library, SECOND);
    nvmlDevice device = device_of(library, 0), other = device_of(library, 1);
    hold();
    say("nowhere: %u", first(device, NULL));
    say("no device: %u %llu", first(NULL, &one), one.total);
    say("another version: %u %llu", second(device, &two), two.total);
    say("another GPU: %u %llu %llu %llu", first(other, &one), one.total, one.free, one.used);
    two.version = VERSION_2;
    say("by the second: %u %llu %llu", second(other, &two), two.total, two.free);
    unsigned (*shutdown)(void) = (unsigned (*)(void))dlsym(library, "nvmlShutdown");
    CHECK(shutdown() == 0 && shutdown() == 0);
    one = (memory_v1){7, 7, 7};
    say("shut down: %u %llu", first(device, &one), one.total);
    check(at, BYTES, 1);
}

PROBES({"handle", handle}, {"default", by_default}, {"next", next}, {"again", again},
       {"absent", absent}, {"strangers", strangers})
