/* Memory operations in a stream's order, on memory that is not there when they are called. */
#include "probe.h"

enum { BYTES = 3 * MIB, EQUAL = 1, NOT_SUPPORTED = 801 };

/* CUstreamBatchMemOpParams, as much of it as a write needs. */
union op {
    struct {
        unsigned operation;
        CUdeviceptr address;
        unsigned long long value;
        unsigned flags;
    } write;
    uint64_t pad[6];
};
enum { WRITE32 = 2 };

static CUdeviceptr at;
static CUstream s;

static void set_up(void) {
    start();
    at = alloc(BYTES);
    s = stream();
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(at, 0, BYTES / 4));
    synchronize();
}

/* The first two forms of each function are those from before CUDA 12, which newer drivers have but no longer do. */
static int is_done(unsigned form, CUresult result) {
    if (form < 2 && result == NOT_SUPPORTED) return 0;
    MUST(result);
    return 1;
}

static void expect(size_t offset, size_t bytes, uint64_t wanted) {
    uint64_t found = 0;
    wait_for(s);
    to_host(&found, at + offset, bytes);
    CHECK(found == wanted);
}

static void write32(void) {
    static const char *const forms[] = {"cuStreamWriteValue32", "cuStreamWriteValue32_ptsz",
                                        "cuStreamWriteValue32_v2", "cuStreamWriteValue32_v2_ptsz"};
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        ready(BYTES);
        int done = is_done(i, CU_NAMED(forms[i], CUstream, CUdeviceptr, uint32_t, unsigned)(s, at + CHUNK, i + 7, 0));
        called();
        if (!done) continue;
        expect(CHUNK, 4, i + 7);
    }
}

static void write64(void) {
    static const char *const forms[] = {"cuStreamWriteValue64", "cuStreamWriteValue64_ptsz",
                                        "cuStreamWriteValue64_v2", "cuStreamWriteValue64_v2_ptsz"};
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        uint64_t value = 0x123456789a0ULL + i;
        ready(BYTES);
        int done = is_done(i, CU_NAMED(forms[i], CUstream, CUdeviceptr, uint64_t, unsigned)(s, at + 8, value, 0));
        called();
        if (!done) continue;
        expect(8, 8, value);
    }
}

/* Waits for what is there already: a wait for what never comes could never be drained. */
static void wait32(void) {
    static const char *const forms[] = {"cuStreamWaitValue32", "cuStreamWaitValue32_ptsz",
                                        "cuStreamWaitValue32_v2", "cuStreamWaitValue32_v2_ptsz"};
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        ready(BYTES);
        int done = is_done(i, CU_NAMED(forms[i], CUstream, CUdeviceptr, uint32_t, unsigned)(s, at, 0, EQUAL));
        called();
        if (!done) continue;
        expect(0, 4, 0);
    }
}

static void wait64(void) {
    static const char *const forms[] = {"cuStreamWaitValue64", "cuStreamWaitValue64_ptsz",
                                        "cuStreamWaitValue64_v2", "cuStreamWaitValue64_v2_ptsz"};
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        ready(BYTES);
        int done = is_done(i, CU_NAMED(forms[i], CUstream, CUdeviceptr, uint64_t, unsigned)(s, at, 0, EQUAL));
        called();
        if (!done) continue;
        expect(0, 8, 0);
    }
}

static void batch(void) {
    static const char *const forms[] = {"cuStreamBatchMemOp", "cuStreamBatchMemOp_ptsz",
                                        "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp_v2_ptsz"};
    set_up();
    for (unsigned i = 0; i < 4; i++) {
        union op ops[2] = {{.write = {WRITE32, at, i + 1, 0}},
                           {.write = {WRITE32, at + CHUNK, i + 2, 0}}};
        ready(BYTES);
        int done = is_done(i, CU_NAMED(forms[i], CUstream, unsigned, union op *, unsigned)(s, 2, ops, 0));
        called();
        if (!done) continue;
        expect(0, 4, i + 1);
        expect(CHUNK, 4, i + 2);
    }
}

PROBES({"write32", write32}, {"write64", write64}, {"wait32", wait32}, {"wait64", wait64},
       {"batch", batch})
