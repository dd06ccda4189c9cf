/* A driver with a subscriber, before the simulated one (libcudb.so.1): it is told of each call of the
 * functions below, in the thread that makes it, before it begins and after it has ended, as CUPTI tells
 * profilers. What the subscriber calls in turn it is not told of.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

typedef int CUresult;
typedef void *P;
typedef unsigned long long U;
typedef void Subscriber(const char *name);

static Subscriber *_Atomic subscriber;

void driver_subscribe(Subscriber *told) { atomic_store(&subscriber, told); }

static void tell(const char *name) {
    static __thread int telling;
    Subscriber *told = atomic_load(&subscriber);
    if (!told || telling) return;
    telling = 1;
    told(name);
    telling = 0;
}

#define PASS(name, types, declared, passed)                                                 \
    CUresult name declared {                                                                \
        static CUresult(*next) types;                                                       \
        if (!next) next = (CUresult(*) types)dlsym(dlopen("libcudb.so.1", RTLD_NOW), #name); \
        tell(#name);                                                                        \
        CUresult result = next passed;                                                      \
        tell(#name);                                                                        \
        return result;                                                                      \
    }

PASS(cuCtxGetCurrent, (P *), (P * a), (a))
PASS(cuCtxSetCurrent, (P), (P a), (a))
PASS(cuCtxGetDevice, (int *), (int *a), (a))
PASS(cuCtxSynchronize, (void), (void), ())
PASS(cuThreadExchangeStreamCaptureMode, (unsigned *), (unsigned *a), (a))
PASS(cuStreamCreate, (P *, unsigned), (P * a, unsigned b), (a, b))
PASS(cuStreamDestroy_v2, (P), (P a), (a))
PASS(cuStreamQuery, (P), (P a), (a))
PASS(cuStreamGetCtx, (P, P *), (P a, P *b), (a, b))
PASS(cuStreamGetCtx_v2, (P, P *, P *), (P a, P *b, P *c), (a, b, c))
PASS(cuStreamIsCapturing, (P, unsigned *), (P a, unsigned *b), (a, b))
PASS(cuEventCreate, (P *, unsigned), (P * a, unsigned b), (a, b))
PASS(cuEventRecord, (P, P), (P a, P b), (a, b))
PASS(cuEventQuery, (P), (P a), (a))
PASS(cuEventSynchronize, (P), (P a), (a))
PASS(cuEventDestroy_v2, (P), (P a), (a))
PASS(cuLaunchKernel, (P, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, P, P *, P *),
     (P a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h, P i, P *j, P *k),
     (a, b, c, d, e, f, g, h, i, j, k))
PASS(cuMemcpyDtoHAsync_v2, (P, U, size_t, P), (P a, U b, size_t c, P d), (a, b, c, d))
PASS(cuMemcpyHtoDAsync_v2, (U, P, size_t, P), (U a, P b, size_t c, P d), (a, b, c, d))
PASS(cuMemAddressReserve, (U *, size_t, size_t, U, U), (U * a, size_t b, size_t c, U d, U e), (a, b, c, d, e))
PASS(cuMemAddressFree, (U, size_t), (U a, size_t b), (a, b))
PASS(cuMemCreate, (U *, size_t, P, U), (U * a, size_t b, P c, U d), (a, b, c, d))
PASS(cuMemMap, (U, size_t, size_t, U, U), (U a, size_t b, size_t c, U d, U e), (a, b, c, d, e))
PASS(cuMemSetAccess, (U, size_t, P, size_t), (U a, size_t b, P c, size_t d), (a, b, c, d))
PASS(cuMemUnmap, (U, size_t), (U a, size_t b), (a, b))
PASS(cuMemRelease, (U), (U a), (a))
PASS(cuMemHostAlloc, (P *, size_t, unsigned), (P * a, size_t b, unsigned c), (a, b, c))
PASS(cuMemFreeHost, (P), (P a), (a))
