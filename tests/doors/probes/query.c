/* Questions about memory that is out: answered at once, and as for memory that is there. */
#include "probe.h"

enum { BYTES = 3 * MIB, OFFSET = CHUNK + 512 };

static CUdeviceptr at;

static void set_up(void) {
    start();
    at = alloc(BYTES);
    fill(at, BYTES, 1);
}

static void info(void) {
    size_t left[2], total[2], device;
    set_up();
    MUST(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left[0], &total[0]));
    ready(BYTES);
    MUST(CU(cuMemGetInfo_v2, size_t *, size_t *)(&left[1], &total[1]));
    MUST(CU(cuDeviceTotalMem_v2, size_t *, CUdevice)(&device, 0));
    CHECK(left[0] == left[1] && total[0] == total[1] && total[0] == device);
    CHECK(left[0] + BYTES <= total[0]);
    answered();
    check(at, BYTES, 1);
}

static void range(void) {
    CUdeviceptr from = 0;
    size_t bytes = 0;
    set_up();
    ready(BYTES);
    MUST(CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(&from, &bytes,
                                                                          at + OFFSET));
    CHECK(from == at && bytes == BYTES);
    /* Each of the two may be missing. */
    MUST(CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(NULL, &bytes, at));
    MUST(CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(&from, NULL, at));
    answered();
    check(at, BYTES, 1);
}

/* CUpointer_attribute. */
enum { CONTEXT = 1, MEMORY_TYPE = 2, DEVICE_POINTER = 3, ORDINAL = 9, RANGE_START = 11, RANGE_SIZE };

static void attribute(void) {
    CUcontext here, context = NULL;
    unsigned type = 0;
    CUdeviceptr pointer = 0, from = 0;
    size_t bytes = 0;
    int ordinal = -1;
    set_up();
    MUST(CU(cuCtxGetCurrent, CUcontext *)(&here));
    ready(BYTES);
    CUresult (*ask)(void *, int, CUdeviceptr) = door("cuPointerGetAttribute");
    MUST(ask(&context, CONTEXT, at + OFFSET));
    MUST(ask(&type, MEMORY_TYPE, at + OFFSET));
    MUST(ask(&pointer, DEVICE_POINTER, at + OFFSET));
    MUST(ask(&ordinal, ORDINAL, at + OFFSET));
    MUST(ask(&from, RANGE_START, at + OFFSET));
    MUST(ask(&bytes, RANGE_SIZE, at + OFFSET));
    CHECK(context == here && type == 2 && pointer == at + OFFSET && ordinal == 0);
    CHECK(from == at && bytes == BYTES);
    answered();
    check(at, BYTES, 1);
}

static void attributes(void) {
    unsigned type = 0;
    CUdeviceptr from = 0;
    int ordinal = -1, which[] = {MEMORY_TYPE, RANGE_START, ORDINAL};
    void *data[] = {&type, &from, &ordinal};
    set_up();
    ready(BYTES);
    MUST(CU(cuPointerGetAttributes, unsigned, int *, void **, CUdeviceptr)(3, which, data,
                                                                         at + OFFSET));
    CHECK(type == 2 && from == at && ordinal == 0);
    answered();
    check(at, BYTES, 1);
}

/* What is no GPU memory gets the driver's own answers. */
static void strangers(void) {
    unsigned type = 0;
    CUdeviceptr from;
    size_t bytes;
    void *pinned;
    set_up();
    MUST(CU(cuMemHostAlloc, void **, size_t, unsigned)(&pinned, 4096, 0));
    ready(BYTES);
    MUST(CU(cuPointerGetAttribute, void *, int, CUdeviceptr)(&type, MEMORY_TYPE,
                                                            (CUdeviceptr)pinned));
    say("pinned: %u", type);
    say("the stack: %d", CU(cuPointerGetAttribute, void *, int, CUdeviceptr)(
                             &type, MEMORY_TYPE, (CUdeviceptr)&type));
    say("past the end: %d", CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(
                                &from, &bytes, at + (64ULL << 30)));
    check(at, BYTES, 1);
}

PROBES({"memory_info", info}, {"address_range", range}, {"attribute", attribute},
       {"attributes", attributes}, {"strangers", strangers})
