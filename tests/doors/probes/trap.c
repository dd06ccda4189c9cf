/* What programs do wrong, or only seldom. */
#include "probe.h"

#include <pthread.h>

enum { BYTES = 3 * MIB };

static void null_out(void) {
    size_t bytes;
    CUdeviceptr at;
    start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    ready(BYTES);
    say("alloc: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(NULL, BYTES));
    say("pitch: %d", CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
                         &at, NULL, 100, 100, 4));
    say("async: %d", CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(NULL, BYTES, NULL));
    say("host: %d", CU(cuMemHostAlloc, void **, size_t, unsigned)(NULL, BYTES, 0));
    say("total: %d", CU(cuDeviceTotalMem_v2, size_t *, CUdevice)(NULL, 0));
    say("info: %d", CU(cuMemGetInfo_v2, size_t *, size_t *)(NULL, &bytes));
    say("stream: %d", CU(cuStreamCreate, CUstream *, unsigned)(NULL, 0));
    say("create: %d", CU(cuMemCreate, CUhandle *, size_t, const void *, uint64_t)(NULL, BYTES, NULL, 0));
    say("reserve: %d", CU(cuMemAddressReserve, CUdeviceptr *, size_t, size_t, CUdeviceptr, uint64_t)(
                           NULL, BYTES, 0, 0, 0));
    say("kernel: %d", CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, unsigned, CUstream, void **, void **)(NULL, 1, 1, 1, 1, 1, 1, 0,
                                                                         NULL, NULL, NULL));
    say("retain: %d", CU(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(NULL, 0));
    say("attribute: %d", CU(cuPointerGetAttribute, void *, int, CUdeviceptr)(NULL, 2, held));
    check(held, BYTES, 1);
}

static void nothing(void) {
    CUdeviceptr at = 7;
    size_t pitch = 7;
    char byte = 0;
    start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    ready(BYTES);
    say("alloc: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 0));
    say("pitch: %d", CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
                         &at, &pitch, 0, 1, 4));
    say("element: %d", CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
                           &at, &pitch, 8, 1, 5));
    say("copy: %d", CU(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)(held, &byte, 0));
    say("back: %d", CU(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)(&byte, held, 0));
    say("set: %d", CU(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)(held, 1, 0));
    check(held, BYTES, 1);
}

static void too_much(void) {
    CUdeviceptr at;
    size_t left, total, pitch;
    start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    MUST(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total));
    ready(BYTES);
    say("all: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, total));
    say("more: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 64 * total));
    say("most: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, SIZE_MAX));
    say("rows: %d", CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
                        &at, &pitch, SIZE_MAX / 2, 8, 4));
    say("a little: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, MIB));
    fill(at, MIB, 2);
    check(held, BYTES, 1);
    check(at, MIB, 2);
}

static void no_context(void) {
    CUdeviceptr at;
    size_t left, total;
    CUcontext context = start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    ready(BYTES);
    MUST(CU(cuCtxSetCurrent, CUcontext)(NULL));
    say("alloc: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, BYTES));
    say("info: %d", CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total));
    say("set: %d", CU(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)(held, 1, 8));
    say("stream: %d", CU(cuStreamCreate, CUstream *, unsigned)((CUstream *)&at, 0));
    say("wait: %d", CU(cuCtxSynchronize, void)());
    MUST(CU(cuCtxSetCurrent, CUcontext)(context));
    check(held, BYTES, 1);
}

static void no_init(void) {
    CUdeviceptr at;
    size_t left, total;
    CUcontext context;
    say("alloc: %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, BYTES));
    say("info: %d", CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total));
    say("retain: %d", CU(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&context, 0));
    say("flags: %d", CU(cuInit, unsigned)(5));
    start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    ready(BYTES);
    MUST(CU(cuInit, unsigned)(0));
    check(held, BYTES, 1);
}

/* Memory that is asked for while a capture goes on is memory like any other. */
static void capture(void) {
    CUgraph graph;
    start();
    CUdeviceptr before = alloc(BYTES), within;
    fill(before, BYTES, 1);
    CUstream s = stream();
    ready(BYTES);
    MUST(CU(cuStreamBeginCapture_v2, CUstream, unsigned)(s, 2));
    MUST(CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&within, BYTES));
    MUST(CU(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)(within, 1, BYTES, s));
    MUST(CU(cuStreamEndCapture, CUstream, CUgraph *)(s, &graph));
    MUST(CU(cuGraphDestroy, CUgraph)(graph));
    fill(within, BYTES, 2);
    ready(2 * BYTES);
    check(before, BYTES, 1);
    check(within, BYTES, 2);
    release(within);
    release(before);
}

static CUcontext shared;
static CUdeviceptr target;

/* Ends within a capture on its own stream, in each mode. */
static void *dies(void *mode) {
    CUstream own = (CUstream)2;
    MUST(CU(cuCtxSetCurrent, CUcontext)(shared));
    MUST(CU(cuStreamBeginCapture_v2, CUstream, unsigned)(own, (unsigned)(size_t)mode));
    MUST(CU(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)(target, 1, 8, own));
    return NULL;
}

/* A capture that nobody can end any more ends with its thread. */
static void lost_capture(void) {
    pthread_t made;
    shared = start();
    target = alloc(BYTES);
    fill(target, BYTES, 1);
    for (size_t mode = 0; mode < 3; mode++) {
        CHECK(!pthread_create(&made, NULL, dies, (void *)mode));
        pthread_join(made, NULL);
        ready(BYTES);
        check(target, BYTES, 1);
    }
    release(target);
}

static CUresult inner;

/* A driver call that the documentation forbids here; it must not hang. */
static void sets(void *unused) {
    (void)unused;
    inner = CU(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)(target, 1, 8, NULL);
}

static void host_function(void) {
    start();
    CUstream s = stream();
    target = alloc(BYTES);
    fill(target, BYTES, 1);
    ready(BYTES);
    MUST(CU(cuLaunchHostFunc, CUstream, void (*)(void *), void *)(s, sets, NULL));
    wait_for(s);
    say("within: %d", inner);
    ready(BYTES);
    release(target);
}

static void *churn(void *number) {
    unsigned me = (unsigned)(size_t)number;
    MUST(CU(cuCtxSetCurrent, CUcontext)(shared));
    for (unsigned i = 0; i < 40; i++) {
        size_t bytes = ((me * 131 + i * 77) % 700 + 1) * 1024;
        CUdeviceptr at = alloc(bytes);
        fill(at, bytes, me * 64 + i);
        check(at, bytes, me * 64 + i);
        release(at);
    }
    return NULL;
}

static void threads(void) {
    pthread_t made[6];
    shared = start();
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    ready(BYTES);
    for (size_t i = 0; i < 6; i++) CHECK(!pthread_create(&made[i], NULL, churn, (void *)i));
    for (size_t i = 0; i < 6; i++) pthread_join(made[i], NULL);
    ready(BYTES);
    check(held, BYTES, 1);
    release(held);
}

/* A context takes its memory with it, out or not; another's stays. */
static void context(void) {
    CUdeviceptr start_of;
    size_t bytes;
    CUcontext primary = start(), second;
    CUdeviceptr held = alloc(BYTES);
    fill(held, BYTES, 1);
    for (int round = 0; round < 2; round++) {
        MUST(CU(cuCtxCreate_v2, CUcontext *, unsigned, CUdevice)(&second, 0, 0));
        CUdeviceptr other = alloc(4 * MIB);
        fill(other, 4 * MIB, 2);
        ready(BYTES + 4 * MIB);
        MUST(CU(cuCtxDestroy_v2, CUcontext)(second));
        MUST(CU(cuCtxSetCurrent, CUcontext)(primary));
        /* Not by how much is free, which other programs and what the driver keeps change. */
        CHECK(CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(&start_of, &bytes, other) != SUCCESS);
        check(held, BYTES, 1);
    }
    release(held);
}

static void reset(void) {
    start();
    alloc(BYTES);
    ready(BYTES);
    MUST(CU(cuDevicePrimaryCtxReset_v2, CUdevice)(0));
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 3);
    ready(BYTES);
    check(at, BYTES, 3);
    release(at);
}

/* A stream that goes with work on it finishes that work, which may take longer than the call. */
static void lost_stream(void) {
    start();
    CUdeviceptr from = alloc(BYTES), to = alloc(BYTES);
    fill(from, BYTES, 1);
    CUstream s = stream();
    ready(2 * BYTES);
    MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(to, from, BYTES, s));
    MUST(CU(cuStreamDestroy_v2, CUstream)(s));
    synchronize();
    ready(2 * BYTES);
    check(to, BYTES, 1);
    release(to);
    release(from);
}

PROBES({"null_out", null_out}, {"zero_sizes", nothing}, {"too_much", too_much},
       {"no_context", no_context}, {"no_init", no_init}, {"capture_alloc", capture},
       {"call_in_host_function", host_function}, {"threads", threads},
       {"context_destroyed", context}, {"context_reset", reset}, {"stream_destroyed", lost_stream},
       {"capture_lost", lost_capture})
