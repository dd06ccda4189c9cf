/* Memory of a stream's order, and copies in batches between it, the device and the host. */
#include "program.h"

enum { COUNT = 3, WORDS = 1 << 12, BYTES = WORDS * 4, PIECE = BYTES / 8, MOST = 5, IN_STREAM_ORDER = 1 };

struct attributes {
    unsigned order;
    unsigned from[2], to[2];
    unsigned flags;
};

static CUfunction add;
static CUdeviceptr plain;
static CUstream on;
static unsigned char *host;

static void batch(CUdeviceptr *pool) {
    CUdeviceptr to[MOST], from[MOST];
    size_t bytes[MOST], first = 0, failed = 0, count = 1 + below(MOST);
    struct attributes attributes = {.order = IN_STREAM_ORDER};
    for (size_t i = 0; i < count; i++) {
        /* No copy's result is another's source: they may run in any order. */
        to[i] = pool[below(COUNT)] + i * PIECE;
        from[i] = (below(2) ? plain : (CUdeviceptr)(uintptr_t)host) + below(BYTES - PIECE);
        bytes[i] = 1 + below(PIECE);
    }
    MUST(CU(cuMemcpyBatchAsync, CUdeviceptr *, CUdeviceptr *, size_t *, size_t, struct attributes *, size_t *, size_t,
            size_t *, CUstream)(to, from, bytes, count, &attributes, &first, 1, &failed, on));
}

static void round_of(void) {
    CUdeviceptr pool[COUNT];
    randomize(host, BYTES);
    for (int i = 0; i < COUNT; i++) {
        MUST(CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&pool[i], BYTES, on));
        set_words(pool[i], (uint32_t)next(), WORDS, on);
    }
    batch(pool);
    axpy(add, on, plain, pool[below(COUNT)], WORDS, (uint32_t)next());
    batch(pool);
    wait_for(on);
    for (int i = 0; i < COUNT; i++) {
        saw_device(pool[i], BYTES);
        MUST(CU(cuMemFreeAsync, CUdeviceptr, CUstream)(pool[i], on));
    }
    wait_for(on);
    saw_device(plain, BYTES);
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    plain = apart(BYTES);
    fill(plain, BYTES, 1);
    on = stream();
    host = pinned(BYTES);
    rounds(argc, argv, round_of);
    return 0;
}
