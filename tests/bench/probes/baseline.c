/* Swapping without rtswap: what a program does that moves its own memory.
 *
 * baseline pageable|pinned ROUNDS BYTES...
 *
 * One physical allocation of whole 2 MiB for each object of BYTES. A swap-out takes host memory,
 * copies every object, unmaps and releases; a swap-in creates, maps and copies, and gives the host
 * memory back. Prints the best round in ns, step by step:
 *   {"out":{"host":N,"copy":N,"unmap":N},"in":{"map":N,"copy":N,"host":N}}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <time.h>

enum { GRANULE = 2 << 20, MOST = 4096 };

typedef struct { int type, id; } Location;
typedef struct { int type, handles; Location location; void *win32; unsigned char flags[8]; } Properties;
typedef struct { Location location; int flags; } Access;

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr hint,
                             unsigned long long flags);
CUresult cuMemCreate(unsigned long long *handle, size_t bytes, const Properties *properties,
                     unsigned long long flags);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, unsigned long long handle,
                  unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const Access *access, size_t count);
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes);
CUresult cuMemRelease(unsigned long long handle);
CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *host);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);

static CUdeviceptr at[MOST];
static size_t bytes[MOST], whole[MOST];
static unsigned long long handle[MOST];
static int count;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void make(void) {
    Properties properties;
    Access access = {{1, 0}, 3};
    memset(&properties, 0, sizeof properties);
    properties.type = 1;
    properties.location.type = 1;
    for (int i = 0; i < count; i++) {
        MUST(cuMemCreate(&handle[i], whole[i], &properties, 0));
        MUST(cuMemMap(at[i], whole[i], 0, handle[i], 0));
        MUST(cuMemSetAccess(at[i], whole[i], &access, 1));
    }
}

static char *take(int pinned, size_t total) {
    void *host = NULL;
    if (pinned) MUST(cuMemHostAlloc(&host, total, 0));
    else host = malloc(total);
    return host;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int pinned = !strcmp(argv[1], "pinned"), rounds = atoi(argv[2]);
    size_t total = 0;
    CUstream stream;
    long best[2][4];
    memset(best, 0, sizeof best);
    probe_kernel("axpy", PROBE_PTX);
    MUST(cuStreamCreate(&stream, 1));
    for (int i = 3; i < argc && count < MOST; i++, count++) {
        bytes[count] = strtoull(argv[i], NULL, 10);
        whole[count] = (bytes[count] + GRANULE - 1) / GRANULE * GRANULE;
        total += bytes[count];
        MUST(cuMemAddressReserve(&at[count], whole[count], 0, 0, 0));
    }
    make();
    for (int round = 0; round < rounds; round++) {
        long t[9];
        t[0] = now();
        char *host = take(pinned, total), *to = host;
        t[1] = now();
        for (int i = 0; i < count; to += bytes[i++])
            MUST(cuMemcpyDtoHAsync_v2(to, at[i], bytes[i], stream));
        MUST(cuStreamSynchronize(stream));
        t[2] = now();
        for (int i = 0; i < count; i++) {
            MUST(cuMemUnmap(at[i], whole[i]));
            MUST(cuMemRelease(handle[i]));
        }
        t[3] = now();
        make();
        t[4] = now();
        to = host;
        for (int i = 0; i < count; to += bytes[i++])
            MUST(cuMemcpyHtoDAsync_v2(at[i], to, bytes[i], stream));
        MUST(cuStreamSynchronize(stream));
        t[5] = now();
        if (pinned) MUST(cuMemFreeHost(host));
        else free(host);
        t[6] = now();
        for (int way = 0; way < 2; way++) {
            long *from = t + 3 * way, took = from[3] - from[0];
            if (!round || took < best[way][3]) {
                for (int step = 0; step < 3; step++) best[way][step] = from[step + 1] - from[step];
                best[way][3] = took;
            }
        }
    }
    printf("{\"out\":{\"host\":%ld,\"copy\":%ld,\"unmap\":%ld},"
           "\"in\":{\"map\":%ld,\"copy\":%ld,\"host\":%ld}}\n",
           best[0][0], best[0][1], best[0][2], best[1][0], best[1][1], best[1][2]);
    return 0;
}
