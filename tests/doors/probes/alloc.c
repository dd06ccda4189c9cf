/* One probe for each way to allocate that needs no stream. */
#include "probe.h"

enum { BYTES = 3 * MIB + 512, ROWS = 700, ROW_BYTES = 4000 };

static void plain(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    release(at);
}

/* Objects of all sizes, some gone again, so that chunks are shared. */
static void many(void) {
    enum { COUNT = 40 };
    CUdeviceptr at[COUNT];
    size_t held = 0, bytes[COUNT];
    start();
    for (unsigned i = 0; i < COUNT; i++) {
        bytes[i] = (size_t)1 << (i % 20);
        at[i] = alloc(bytes[i]);
        CHECK(at[i] % 256 == 0);
        fill(at[i], bytes[i], i);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        if (i % 3 == 0) release(at[i]);
        else held += bytes[i];
    }
    for (int round = 0; round < 2; round++) {
        ready(held);
        for (unsigned i = 0; i < COUNT; i++) {
            if (i % 3) check(at[i], bytes[i], i);
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        if (i % 3) release(at[i]);
    }
}

static void pitch(void) {
    start();
    CUdeviceptr at;
    size_t row = 0;
    MUST(CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(
        &at, &row, ROW_BYTES, ROWS, 4));
    CHECK(row >= ROW_BYTES && row % 256 == 0);
    fill(at, row * ROWS, 2);
    ready(row * ROWS);
    check(at, row * ROWS, 2);
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

/* Pinned host memory is none of the GPU's: it stays what it is while GPU memory leaves. */
static void host(void) {
    start();
    void *pinned;
    CUdeviceptr mapped, at = alloc(BYTES);
    MUST(CU(cuMemHostAlloc, void **, size_t, unsigned)(&pinned, BYTES, 2));
    MUST(CU(cuMemHostGetDevicePointer_v2, CUdeviceptr *, void *, unsigned)(&mapped, pinned, 0));
    for (size_t i = 0; i < BYTES; i++) ((unsigned char *)pinned)[i] = pattern(9, i);
    to_device(at, pinned, BYTES);
    ready(BYTES);
    check_host(pinned, BYTES, 9);
    check(at, BYTES, 9);
    MUST(CU(cuMemFreeHost, void *)(pinned));
    release(at);
}

static void registered(void) {
    start();
    void *own = aligned_alloc(4096, 4 * MIB);
    CUdeviceptr at = alloc(4 * MIB);
    MUST(CU(cuMemHostRegister_v2, void *, size_t, unsigned)(own, 4 * MIB, 2));
    for (size_t i = 0; i < 4 * MIB; i++) ((unsigned char *)own)[i] = pattern(4, i);
    to_device(at, own, 4 * MIB);
    ready(4 * MIB);
    check(at, 4 * MIB, 4);
    MUST(CU(cuMemHostUnregister, void *)(own));
    free(own);
    release(at);
}

/* CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR. */
struct array2d {
    size_t width, height;
    unsigned format, channels;
};
struct array3d {
    size_t width, height, depth;
    unsigned format, channels, flags;
};
enum { UNSIGNED_INT32 = 3 };

static void array(void) {
    struct array2d of = {1024, 1024, UNSIGNED_INT32, 1};
    CUarray made;
    start();
    base();
    MUST(CU(cuArrayCreate_v2, CUarray *, const struct array2d *)(&made, &of));
    ready(4 * MIB);
    MUST(CU(cuArrayDestroy, CUarray)(made));
    freed();
}

static void array3(void) {
    struct array3d of = {256, 256, 16, UNSIGNED_INT32, 1, 0};
    CUarray made;
    start();
    base();
    MUST(CU(cuArray3DCreate_v2, CUarray *, const struct array3d *)(&made, &of));
    ready(4 * MIB);
    MUST(CU(cuArrayDestroy, CUarray)(made));
    freed();
}

static void mipmapped(void) {
    struct array3d of = {1024, 1024, 0, UNSIGNED_INT32, 1, 0};
    void *made;
    start();
    base();
    MUST(CU(cuMipmappedArrayCreate, void **, const struct array3d *, unsigned)(&made, &of, 1));
    ready(4 * MIB);
    MUST(CU(cuMipmappedArrayDestroy, void *)(made));
    freed();
}

PROBES({"plain", plain}, {"many", many}, {"pitch", pitch}, {"managed", managed}, {"host", host},
       {"registered", registered}, {"array", array}, {"array3d", array3}, {"mipmapped", mipmapped})
