/* Frees: each way, and each that is wrong. */
#include "probe.h"

enum { BYTES = 3 * MIB };

static size_t free_bytes(void) {
    size_t left, total;
    MUST(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total));
    return left;
}

/* What is freed can be had again, all of it, while the rest is out. */
static void plain(void) {
    start();
    CUdeviceptr kept = alloc(BYTES), gone = alloc(BYTES);
    fill(kept, BYTES, 1);
    fill(gone, BYTES, 2);
    size_t before = free_bytes();
    ready(2 * BYTES);
    release(gone);
    CHECK(free_bytes() >= before + 2 * MIB);
    check(kept, BYTES, 1);
    release(kept);
}

/* cuMemFreeAsync takes what cuMemAlloc gave. */
static void async(void) {
    start();
    CUstream s = stream();
    CUdeviceptr kept = alloc(BYTES), gone = alloc(BYTES);
    fill(kept, BYTES, 1);
    ready(2 * BYTES);
    MUST(CU(cuMemFreeAsync, CUdeviceptr, CUstream)(gone, s));
    wait_for(s);
    check(kept, BYTES, 1);
    release(kept);
}

static void null(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    say("free of nothing: %d", CU(cuMemFree_v2, CUdeviceptr)(0));
    check(at, BYTES, 1);
}

static void twice(void) {
    start();
    CUdeviceptr at = alloc(BYTES), other = alloc(BYTES);
    fill(other, BYTES, 1);
    release(at);
    ready(BYTES);
    say("the second: %d", CU(cuMemFree_v2, CUdeviceptr)(at));
    check(other, BYTES, 1);
}

static void inner(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    say("of its middle: %d", CU(cuMemFree_v2, CUdeviceptr)(at + 4096));
    check(at, BYTES, 1);
    release(at);
}

/* Waits for the work that still uses it, as the driver does. */
static void busy(void) {
    start();
    uint64_t ns = 20000000;
    void *spin[] = {&ns};
    CUdeviceptr gone = alloc(BYTES), kept = alloc(BYTES);
    unsigned char *host = patterned(BYTES, 3), *back = malloc(BYTES);
    CUfunction wait = kernel("spin");
    CUstream s = stream();
    ready(2 * BYTES);
    MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            unsigned, CUstream, void **, void **)(wait, 1, 1, 1, 1, 1, 1, 0, s, spin, NULL));
    MUST(CU(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)(gone, host, BYTES, s));
    MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(kept, gone, BYTES, s));
    release(gone);
    to_host(back, kept, BYTES);
    check_host(back, BYTES, 3);
    release(kept);
    free(host);
    free(back);
}

PROBES({"plain", plain}, {"async", async}, {"null", null}, {"twice", twice}, {"inner", inner},
       {"busy", busy})
