/* Green contexts that come and go, with streams of theirs and memory that outlives them. */
#include "program.h"

enum { WORDS = 1 << 13, BYTES = WORDS * 4, MULTIPROCESSORS = 1, DEFAULT_STREAM = 1 };

struct resource {
    unsigned kind;
    unsigned char rest[140];
};

static CUmodule library;
static CUfunction add;
static CUdeviceptr buffers[2];

static void round_of(void) {
    struct resource whole;
    void *description, *green;
    CUcontext context, before;
    CUstream streams[2];
    MUST(CU(cuDeviceGetDevResource, CUdevice, struct resource *, unsigned)(0, &whole, MULTIPROCESSORS));
    MUST(CU(cuDevResourceGenerateDesc, void **, struct resource *, unsigned)(&description, &whole, 1));
    MUST(CU(cuGreenCtxCreate, void **, void *, CUdevice, unsigned)(&green, description, 0, DEFAULT_STREAM));
    MUST(CU(cuCtxFromGreenCtx, CUcontext *, void *)(&context, green));
    for (int i = 0; i < 2; i++)
        MUST(CU(cuGreenCtxStreamCreate, CUstream *, void *, unsigned, int)(&streams[i], green, NON_BLOCKING, 0));
    MUST(CU(cuCtxPushCurrent_v2, CUcontext)(context));
    randomize_device(buffers[below(2)], BYTES);
    for (unsigned left = 4; left > 0; left--) {
        unsigned on = below(2);
        set_words(buffers[on] + 4 * below(WORDS / 2), (uint32_t)next(), WORDS / 2, streams[on]);
        axpy(add, streams[on], buffers[on], buffers[on], WORDS, (uint32_t)next());
    }
    for (int i = 0; i < 2; i++) {
        wait_for(streams[i]);
        MUST(CU(cuStreamDestroy_v2, CUstream)(streams[i]));
    }
    MUST(CU(cuCtxPopCurrent_v2, CUcontext *)(&before));
    CHECK(before == context);
    MUST(CU(cuGreenCtxDestroy, void *)(green));
    saw_device(buffers[0], BYTES);
    saw_device(buffers[1], BYTES);
}

int main(int argc, char **argv) {
    start();
    /* Kernels of a library run in any context. */
    MUST(CU(cuLibraryLoadData, CUmodule *, const void *, void *, void *, unsigned, void *, void *, unsigned)(
        &library, PROBE_PTX, NULL, NULL, 0, NULL, NULL, 0));
    MUST(CU(cuLibraryGetKernel, CUfunction *, CUmodule, const char *)(&add, library, "axpy"));
    for (unsigned i = 0; i < 2; i++) {
        buffers[i] = apart(BYTES);
        fill(buffers[i], BYTES, i);
    }
    rounds(argc, argv, round_of);
    return 0;
}
