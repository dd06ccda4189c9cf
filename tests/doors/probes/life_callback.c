/* A tool in the process that is told of the driver's calls (life_subscribed.c), the agent's own among
 * them, and calls the driver in turn: in the same thread, which may hold locks of the agent.
 */
#include "life.h"
#include "vmm.h"

/* What the driver says to who calls it where it must not be called, and without a context. */
enum { NOT_PERMITTED = 800, INVALID_CONTEXT = 201, TOOL_WORDS = 1024, ROUNDS = 40 };

static CUstream tool_stream;
static CUdeviceptr tool_sum, tool_one;
static atomic_int told, added, refused;

static void subscribe(void (*subscriber)(const char *)) {
    ((void (*)(void (*)(const char *)))door("driver_subscribe"))(subscriber);
}

/* Asks, allocates and frees. */
static void calls(const char *name) {
    size_t left, total;
    CUdeviceptr at;
    CUstream made;
    (void)name;
    atomic_fetch_add(&told, 1);
    CU(cuMemGetInfo_v2, size_t *, size_t *)(&left, &total);
    CU(cuStreamQuery, CUstream)(tool_stream);
    if (CU(cuStreamCreate, CUstream *, unsigned)(&made, NON_BLOCKING) == SUCCESS)
        MUST(CU(cuStreamDestroy_v2, CUstream)(made));
    if (CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 512) == SUCCESS)
        MUST(CU(cuMemFree_v2, CUdeviceptr)(at));
}

/* Starts work, in memory that swaps, on a stream that waits for no other. */
static void works(const char *name) {
    uint64_t words = TOOL_WORDS;
    uint32_t factor = 1;
    void *params[] = {&tool_sum, &tool_one, &words, &factor};
    (void)name;
    atomic_fetch_add(&told, 1);
    CUresult result =
        CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
           unsigned, CUstream, void **, void **)(life_axpy, 1, 1, 1, 256, 1, 1, 0, tool_stream,
                                                 params, NULL);
    if (result == SUCCESS)
        atomic_fetch_add(&added, 1);
    else if (result == NOT_PERMITTED || result == INVALID_CONTEXT)
        atomic_fetch_add(&refused, 1);
    else
        fail(__FILE__, __LINE__, "a launch in a callback", result);
}

/* Memory of the program's own: compressed it does not swap. */
static void map_some(unsigned char compressed) {
    struct prop of = {.kind = 1, .location = 1, .id = 0, .flags = {compressed}};
    CUdeviceptr at = reserve(CHUNK);
    CUhandle made;
    MUST(CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&made, CHUNK, &of, 0));
    map(at, CHUNK, 0, made);
    allow(at, CHUNK);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(at, 7, CHUNK / 4));
    synchronize();
    unmap(at, CHUNK);
    drop(made);
    MUST(CU(cuMemAddressFree, CUdeviceptr, size_t)(at, CHUNK));
}

/* What makes the agent call the driver: memory of each kind, streams, and a swap out and in. */
static void provoke(void (*subscriber)(const char *)) {
    life_start();
    tool_stream = stream();
    tool_sum = alloc(4 * TOOL_WORDS);
    tool_one = alloc(4 * TOOL_WORDS);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(tool_sum, 0, TOOL_WORDS));
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(tool_one, 1, TOOL_WORDS));
    synchronize();
    subscribe(subscriber);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr at = alloc((1 + i % 3) * MIB), ordered;
        CUstream own = stream();
        MUST(CU(cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream)(at, 7, 1024, own));
        MUST(CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&ordered, 4096, own));
        MUST(CU(cuMemFreeAsync, CUdeviceptr, CUstream)(ordered, own));
        life_add();
        wait_for(own);
        MUST(CU(cuStreamDestroy_v2, CUstream)(own));
        release(at);
        map_some(0);
        map_some(1);
    }
    for (int i = 0; i < 3; i++) life_round();
    subscribe(NULL);
    synchronize();
    CHECK(atomic_load(&told) > 0);
    life_check();
}

static void calling(void) { provoke(calls); }

static void working(void) {
    uint32_t sums[TOOL_WORDS];
    provoke(works);
    CHECK(atomic_load(&added) > 0);
    to_host(sums, tool_sum, sizeof sums);
    for (int i = 0; i < TOOL_WORDS; i++) {
        if (sums[i] != (uint32_t)atomic_load(&added))
            fail(__FILE__, __LINE__, "a word of the tool's is wrong", sums[i]);
    }
}

PROBES({"calling", calling}, {"working", working})
