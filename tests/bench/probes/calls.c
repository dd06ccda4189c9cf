/* What a call costs, over a driver that does nothing (stub.c).
 *
 * calls launch                   {"launch_ns":N}: the best of many batches, per launch
 * calls alloc                    {"alloc_ns":N,"free_ns":N}: small objects among many others
 * calls ordered                  {"ordered_ns":N}: one on a stream and its free there
 * calls list                     allocates and frees by its input: "a BYTES" or "f INDEX" (of the
 *                                allocations in their order), and says "done N" at each "?"
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <time.h>

CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream);

enum { BATCHES = 200, LAUNCHES = 20000, OBJECTS = 2000, SMALL = 4096 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int launch(CUfunction function) {
    CUstream stream;
    double best = 1e18;
    MUST(cuStreamCreate(&stream, 1));
    /* The first one waits for its grant. */
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now(), took;
        for (int i = 0; i < LAUNCHES; i++)
            cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
        took = (now() - start) / LAUNCHES;
        if (took < best) best = took;
    }
    printf("{\"launch_ns\":%.3f}\n", best);
    return 0;
}

static int alloc(void) {
    static CUdeviceptr at[OBJECTS];
    double best[2] = {1e18, 1e18};
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now(), middle, end;
        for (int i = 0; i < OBJECTS; i++) MUST(cuMemAlloc_v2(&at[i], SMALL));
        middle = now();
        for (int i = 0; i < OBJECTS; i++) MUST(cuMemFree_v2(at[i]));
        end = now();
        if (middle - start < best[0]) best[0] = middle - start;
        if (end - middle < best[1]) best[1] = end - middle;
    }
    printf("{\"alloc_ns\":%.1f,\"free_ns\":%.1f}\n", best[0] / OBJECTS, best[1] / OBJECTS);
    return 0;
}

static int ordered(void) {
    CUdeviceptr at;
    CUstream stream;
    double best = 1e18;
    MUST(cuStreamCreate(&stream, 1));
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now(), took;
        for (int i = 0; i < OBJECTS; i++) {
            MUST(cuMemAllocAsync(&at, SMALL, stream));
            MUST(cuMemFreeAsync(at, stream));
        }
        took = now() - start;
        if (took < best) best = took;
    }
    printf("{\"ordered_ns\":%.1f}\n", best / OBJECTS);
    return 0;
}

static int list(void) {
    size_t room = 1 << 16, count = 0;
    CUdeviceptr *at = calloc(room, sizeof *at);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long number = strtoull(line + 1, NULL, 10);
        if (line[0] == 'a') {
            if (count == room) at = realloc(at, (room *= 2) * sizeof *at);
            MUST(cuMemAlloc_v2(&at[count++], number));
        } else if (line[0] == 'f') {
            MUST(cuMemFree_v2(at[number]));
        } else {
            printf("done %zu\n", count);
            fflush(stdout);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    CUfunction function = probe_kernel("axpy", PROBE_PTX);
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "launch")) return launch(function);
    if (!strcmp(argv[1], "alloc")) return alloc();
    if (!strcmp(argv[1], "ordered")) return ordered();
    return list();
}
