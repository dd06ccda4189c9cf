/* One probe for each way to allocate that needs no stream. */
#include "probe.h"

enum { BYTES = 3 * MIB + 512 };

static void plain(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    release(at);
}

static void pitch(void) {
    start();
    CUdeviceptr at;
    size_t row;
    MUST(CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
        &at, &row, 1000, 3000, 4));
    CHECK(row >= 1000);
    fill(at, row * 3000, 2);
    ready(row * 3000);
    check(at, row * 3000, 2);
    release(at);
}

static void managed(void) {
    start();
    base();
    CUdeviceptr at;
    MUST(CU(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned)(&at, BYTES, 1));
    memset((void *)at, 7, BYTES);
    ready(BYTES);
    CHECK(((unsigned char *)at)[BYTES - 1] == 7);
    release(at);
    freed();
}

PROBES({"plain", plain}, {"pitch", pitch}, {"managed", managed})
