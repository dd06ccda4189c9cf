/* GPU 0 computes on memory of GPU 1, from before and from after it was let. Prints {"wrong":N} and
 * waits for the end of its standard input. */
#define _GNU_SOURCE
#include "cuda.h"

enum { WORDS = 3 << 18 };

CUresult cuCtxGetCurrent(CUcontext *current);
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);

static uint32_t host[WORDS];

/* Waits for what it sets: the other stream does not. */
static CUdeviceptr filled(uint32_t value) {
    CUdeviceptr at;
    MUST(cuMemAlloc_v2(&at, sizeof host));
    MUST(cuMemsetD32_v2(at, value, WORDS));
    MUST(cuCtxSynchronize());
    return at;
}

static size_t wrong(CUdeviceptr at, uint32_t value) {
    size_t count = 0;
    MUST(cuMemcpyDtoH_v2(host, at, sizeof host));
    for (size_t i = 0; i < WORDS; i++) count += host[i] != value;
    return count;
}

int main(void) {
    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    CUdevice other;
    CUcontext here, there;
    CUstream stream;
    MUST(cuCtxGetCurrent(&here));
    MUST(cuStreamCreate(&stream, 1));
    CUdeviceptr three = filled(3);
    MUST(cuDeviceGet(&other, 1));
    MUST(cuDevicePrimaryCtxRetain(&there, other));
    MUST(cuCtxSetCurrent(there));
    CUdeviceptr before = filled(10);
    MUST(cuCtxSetCurrent(here));
    MUST(cuCtxEnablePeerAccess(there, 0));
    MUST(cuCtxSetCurrent(there));
    CUdeviceptr after = filled(20);
    MUST(cuCtxSetCurrent(here));
    probe_axpy(axpy, stream, before, three, WORDS, 2);
    probe_axpy(axpy, stream, after, three, WORDS, 3);
    MUST(cuStreamSynchronize(stream));
    MUST(cuCtxSetCurrent(there));
    printf("{\"wrong\":%zu}\n", wrong(before, 16) + wrong(after, 29));
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
