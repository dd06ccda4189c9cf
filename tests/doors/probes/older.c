/* Functions beside the usual ones: what moves managed memory in a stream's order, and older and newer forms of those for
 * contexts. */
#include "probe.h"

enum { BYTES = 3 * MIB, GLOBAL = 1, ON_DEVICE = 1 };

/* CUmemLocation. */
struct location {
    int type, id;
};

/* They wait as all work does, though managed memory is never ours. */
static void managed(void) {
    static const char *const moves[] = {"cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz"};
    static const char *const located[] = {"cuMemPrefetchAsync_v2", "cuMemPrefetchAsync_v2_ptsz"};
    static const char *const attached[] = {"cuStreamAttachMemAsync", "cuStreamAttachMemAsync_ptsz"};
    struct location there = {ON_DEVICE, 0};
    CUdeviceptr mine, at;
    start();
    mine = alloc(BYTES);
    fill(mine, BYTES, 1);
    CUstream s = stream();
    MUST(CU(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned)(&at, BYTES, GLOBAL));
    fill(at, BYTES, 2);
    synchronize();
    for (int i = 0; i < 2; i++) {
        ready(BYTES);
        MUST(CU_NAMED(moves[i], CUdeviceptr, size_t, CUdevice, CUstream)(at, BYTES, 0, s));
        called();
        wait_for(s);
        check(mine, BYTES, 1);
        ready(BYTES);
        MUST(CU_NAMED(located[i], CUdeviceptr, size_t, struct location, unsigned, CUstream)(
            at, BYTES, there, 0, s));
        called();
        wait_for(s);
        check(mine, BYTES, 1);
        ready(BYTES);
        MUST(CU_NAMED(attached[i], CUstream, CUdeviceptr, size_t, unsigned)(s, at, 0, GLOBAL));
        called();
        wait_for(s);
        check(mine, BYTES, 1);
    }
    check(at, BYTES, 2);
    release(at);
}

/* Says what a call returned. */
static void says(const char *name, CUresult result) { printf("%s %d\n", name, result); }

static void contexts(void) {
    CUcontext context;
    unsigned all = 0, left = 0;
    MUST(CU(cuInit, unsigned)(0));
    says("cuDeviceTotalMem", CU(cuDeviceTotalMem, unsigned *, CUdevice)(&all, 0));
    says("cuCtxCreate_v3",
         CU(cuCtxCreate_v3, CUcontext *, void *, int, unsigned, CUdevice)(&context, NULL, 0, 0, 0));
    says("cuMemGetInfo", CU(cuMemGetInfo, unsigned *, unsigned *)(&left, &all));
    CUdeviceptr first = alloc(BYTES);
    fill(first, BYTES, 1);
    check(first, BYTES, 1);
    says("cuCtxDestroy", CU(cuCtxDestroy, CUcontext)(context));
    says("cuCtxCreate_v4",
         CU(cuCtxCreate_v4, CUcontext *, void *, unsigned, CUdevice)(&context, NULL, 0, 0));
    says("cuCtxDestroy", CU(cuCtxDestroy, CUcontext)(context));
    for (int i = 0; i < 2; i++) {
        context = start();
        CUdeviceptr at = alloc(BYTES);
        fill(at, BYTES, 2);
        check(at, BYTES, 2);
        if (i == 0) says("cuDevicePrimaryCtxReset", CU(cuDevicePrimaryCtxReset, CUdevice)(0));
        says("cuDevicePrimaryCtxRelease", CU(cuDevicePrimaryCtxRelease, CUdevice)(0));
    }
}

PROBES({"managed", managed}, {"contexts", contexts})
