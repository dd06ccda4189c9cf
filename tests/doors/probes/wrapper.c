/* A program that has functions of the driver's names, and calls the driver's from them. */
#include "probe.h"

enum { BYTES = 3 * MIB };

static int calls;

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
    calls++;
    /* Itself again: it would never return. */
    if (calls > 2) fail(__FILE__, __LINE__, "called by itself", calls);
    return CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(at, bytes);
}

static void own_name(void) {
    CUdeviceptr at;
    start();
    MUST(cuMemAlloc_v2(&at, BYTES));
    CHECK(calls == 1);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    release(at);
}

PROBES({"own_name", own_name})
