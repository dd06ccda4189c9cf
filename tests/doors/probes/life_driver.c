/* A driver with a temper, before the simulated one (libcudb.so.1): it counts who calls it while it is
 * torn down at exit, which takes a while, and its copies to the host can be made to block as those of
 * a driver that polls, where a thread may be cancelled.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int CUresult;
typedef void *P;
typedef unsigned long long U;

enum { DEINITIALIZED = 4, TEARING_US = 100000 };

static atomic_int torn, inside, late, blocks;

static void *simulated(const char *name) {
    return dlsym(dlopen("libcudb.so.1", RTLD_NOW), name);
}

void driver_blocks(int yes) { atomic_store(&blocks, yes); }

static void tear_down(void) {
    int busy = atomic_load(&inside);
    atomic_store(&torn, 1);
    usleep(TEARING_US);
    printf("driver: %d calls under way and %d more while it was torn down\n", busy,
           atomic_load(&late));
    fflush(stdout);
}

static int enter(void) {
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&torn)) return 1;
    atomic_fetch_sub(&inside, 1);
    atomic_fetch_add(&late, 1);
    return 0;
}

#define SIMULATED(name, ...)                                                                \
    static CUresult (*next)(__VA_ARGS__);                                                   \
    if (!next) next = (CUresult(*)(__VA_ARGS__))simulated(#name)

#define PASS(name, types, declared, passed)                                                 \
    CUresult name declared {                                                                \
        static CUresult(*next) types;                                                       \
        if (!next) next = (CUresult(*) types)simulated(#name);                              \
        if (!enter()) return DEINITIALIZED;                                                 \
        CUresult result = next passed;                                                      \
        atomic_fetch_sub(&inside, 1);                                                       \
        return result;                                                                      \
    }

CUresult cuInit(unsigned flags) {
    static atomic_int registered;
    SIMULATED(cuInit, unsigned);
    CUresult result = next(flags);
    if (result == 0 && !atomic_exchange(&registered, 1)) atexit(tear_down);
    return result;
}

CUresult cuMemcpyDtoH_v2(void *to, U from, size_t bytes) {
    SIMULATED(cuMemcpyDtoH_v2, void *, U, size_t);
    while (atomic_load(&blocks)) poll(NULL, 0, 5);
    if (!enter()) return DEINITIALIZED;
    CUresult result = next(to, from, bytes);
    atomic_fetch_sub(&inside, 1);
    return result;
}

PASS(cuCtxGetCurrent, (P *), (P * a), (a))
PASS(cuCtxSetCurrent, (P), (P a), (a))
PASS(cuCtxSynchronize, (void), (void), ())
PASS(cuStreamQuery, (P), (P a), (a))
PASS(cuStreamIsCapturing, (P, unsigned *), (P a, unsigned *b), (a, b))
PASS(cuEventRecord, (P, P), (P a, P b), (a, b))
PASS(cuEventQuery, (P), (P a), (a))
PASS(cuEventSynchronize, (P), (P a), (a))
PASS(cuMemcpyDtoHAsync_v2, (P, U, size_t, P), (P a, U b, size_t c, P d), (a, b, c, d))
PASS(cuMemcpyHtoDAsync_v2, (U, P, size_t, P), (U a, P b, size_t c, P d), (a, b, c, d))
PASS(cuMemCreate, (U *, size_t, P, U), (U * a, size_t b, P c, U d), (a, b, c, d))
PASS(cuMemMap, (U, size_t, size_t, U, U), (U a, size_t b, size_t c, U d, U e), (a, b, c, d, e))
PASS(cuMemSetAccess, (U, size_t, P, size_t), (U a, size_t b, P c, size_t d), (a, b, c, d))
PASS(cuMemUnmap, (U, size_t), (U a, size_t b), (a, b))
PASS(cuMemRelease, (U), (U a), (a))
PASS(cuMemHostAlloc, (P *, size_t, unsigned), (P * a, size_t b, unsigned c), (a, b, c))
