/* Memory of which the program says that its kernels do not write it: it is copied out again only
 * where the host or a copy engine wrote, and is right all the same. `copied BYTES` asks for all of
 * it to be taken away, for which that much must be copied. */
#include "probe.h"
#include <rtswap.h>

enum { CHUNKS = 3, BYTES = CHUNKS * CHUNK, ALL = BYTES + CHUNK };

static CUdeviceptr a, b;
static unsigned char *host;
static CUstream s;

static void copied(size_t bytes) {
    say("copied %zu", bytes);
    turn();
}

static void verify(void) {
    unsigned char *back = malloc(BYTES);
    synchronize();
    to_host(back, a, BYTES);
    CHECK(!memcmp(back, host, BYTES));
    check(b, CHUNK, 2);
    free(back);
}

/* a is three chunks and b one, both hinted and in their slots. */
static void set_up(void) {
    start();
    a = alloc(BYTES);
    b = alloc(CHUNK);
    host = patterned(BYTES, 1);
    s = stream();
    fill(a, BYTES, 1);
    fill(b, CHUNK, 2);
    rtswap_hint_read_only((void *)(uintptr_t)a, BYTES);
    rtswap_hint_read_only((void *)(uintptr_t)b, CHUNK);
    copied(ALL);
    verify();
    copied(0);
    verify();
    copied(0);
}

/* A call that wrote what `host` has now, in chunks of `bytes`. */
static void wrote(CUresult result, size_t bytes) {
    MUST(result);
    synchronize();
    copied(bytes);
    verify();
    copied(0);
    verify();
}

static void copies(void) {
    struct side {
        size_t x, y;
        unsigned type;
        const void *host;
        CUdeviceptr device;
        CUarray array;
        size_t pitch;
    };
    struct {
        struct side from, to;
        size_t width, height;
    } rows;
    size_t last = BYTES - 1;
    set_up();
    host[0] ^= 1;
    wrote(CU(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)(a, host, 1), CHUNK);
    host[last] ^= 1;
    wrote(CU(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)(
              a + last, host + last, 1, s),
          CHUNK);
    /* Two bytes of b over the edge of two chunks. */
    host[CHUNK - 1] = pattern(2, 0);
    host[CHUNK] = pattern(2, 1);
    wrote(CU(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, size_t)(a + CHUNK - 1, b, 2), 2 * CHUNK);
    host[CHUNK + 9] = pattern(2, 3);
    wrote(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(a + CHUNK + 9, b + 3,
                                                                              1, s),
          CHUNK);
    host[7] = pattern(2, 5);
    wrote(CU(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream)(a + 7, b + 5, 1, s), CHUNK);
    /* The last byte of the first chunk is the last of two rows. */
    memset(&rows, 0, sizeof rows);
    rows.from.type = 1;
    rows.from.host = host + CHUNK - 1025;
    rows.from.pitch = rows.to.pitch = 1024;
    rows.to.type = 2;
    rows.to.device = a;
    rows.to.x = 1023;
    rows.to.y = CHUNK / 1024 - 2;
    rows.width = 1;
    rows.height = 2;
    host[CHUNK - 1025] ^= 1;
    host[CHUNK - 1] ^= 1;
    wrote(CU(cuMemcpy2D_v2, const void *)(&rows), CHUNK);
    rows.to.y = 2 * CHUNK / 1024 - 1;
    rows.from.host = host + 2 * CHUNK - 1;
    host[2 * CHUNK - 1] ^= 1;
    host[2 * CHUNK + 1023] ^= 1;
    wrote(CU(cuMemcpy2DAsync_v2, const void *, CUstream)(&rows, s), 3 * CHUNK);
}

static void sets(void) {
    set_up();
    host[CHUNK] = 1;
    wrote(CU(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)(a + CHUNK, 1, 1), CHUNK);
    memset(host + CHUNK - 2, 2, 4);
    wrote(CU(cuMemsetD16_v2, CUdeviceptr, unsigned short, size_t)(a + CHUNK - 2, 0x0202, 2),
          2 * CHUNK);
    memset(host + 2 * CHUNK - 4, 3, 8);
    wrote(CU(cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream)(a + 2 * CHUNK - 4,
                                                                       0x03030303, 2, s),
          2 * CHUNK);
    host[0] = host[CHUNK] = 4;
    wrote(CU(cuMemsetD2D8_v2, CUdeviceptr, size_t, unsigned char, size_t, size_t)(a, CHUNK, 4, 1,
                                                                                 2),
          2 * CHUNK);
}

static CUgraphExec instantiated(CUgraph graph) {
    CUgraphExec exec;
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph,
                                                                                    0));
    return exec;
}

/* A graph that sets one byte at `at`. */
static CUgraph set_at(CUdeviceptr at, unsigned char value) {
    CUgraph graph;
    MUST(CU(cuStreamBeginCapture_v2, CUstream, unsigned)(s, 0));
    MUST(CU(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)(at, value, 1, s));
    MUST(CU(cuStreamEndCapture, CUstream, CUgraph *)(s, &graph));
    return graph;
}

static CUresult launch(CUgraphExec exec) {
    return CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, s);
}

/* What cannot be told makes all of it dirty, once. */
static void untold(void) {
    struct {
        int result;
        CUgraphNode node, from;
    } info;
    uint32_t word = 0x05050505;
    start();
    s = stream();
    CUdeviceptr early = alloc(CHUNK);
    CUgraphExec first = instantiated(set_at(early, 1));
    release(early);
    set_up();
    memcpy(host + 8, &word, 4);
    wrote(CU(cuStreamWriteValue32_v2, CUstream, CUdeviceptr, uint32_t, unsigned)(s, a + 8, word, 0),
          ALL);
    /* The call that is captured counts as if it wrote. */
    CUgraphExec exec = instantiated(set_at(a + CHUNK + 1, 6));
    copied(CHUNK);
    verify();
    /* Another graph's work, of which nobody looks what it writes. */
    MUST(CU(cuGraphExecUpdate_v2, CUgraphExec, CUgraph, void *)(exec, set_at(a + 1, 7), &info));
    for (int i = 0; i < 2; i++) {
        host[1] = 7;
        wrote(launch(exec), ALL);
        host[1] = 8;
        wrote(CU(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)(a + 1, 8, 1), CHUNK);
    }
    /* Instantiated before anything was said. */
    MUST(CU(cuGraphExecUpdate_v2, CUgraphExec, CUgraph, void *)(first, set_at(a + 2, 9), &info));
    host[2] = 9;
    wrote(launch(first), ALL);
}

/* The nodes of a graph tell what it writes: its kernels nothing, its copies and sets their
 * destinations, those of a graph within as well. */
static void graphs(void) {
    struct {
        CUfunction function;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
    } of = {.grid = {1, 1, 1}, .block = {256, 1, 1}};
    CUgraph graph, child;
    CUgraphNode node;
    set_up();
    uint64_t ns = 1000;
    void *arguments[] = {&ns};
    of.function = kernel("spin");
    of.params = arguments;
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    MUST(CU(cuGraphAddKernelNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            const void *)(&node, graph, NULL, 0, &of));
    CUgraphExec kernels = instantiated(graph);
    wrote(launch(kernels), 0);
    child = set_at(a + CHUNK + 1, 6);
    MUST(CU(cuGraphAddChildGraphNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            CUgraph)(&node, graph, &node, 1, child));
    CUgraphExec sets = instantiated(graph);
    MUST(CU(cuStreamBeginCapture_v2, CUstream, unsigned)(s, 0));
    MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(a + CHUNK - 1, b, 2,
                                                                             s));
    MUST(CU(cuStreamEndCapture, CUstream, CUgraph *)(s, &graph));
    CUgraphExec copies = instantiated(graph);
    /* The calls that are captured count as if they wrote. */
    copied(2 * CHUNK);
    verify();
    for (unsigned char i = 0; i < 2; i++) {
        host[CHUNK + 1] = 6;
        wrote(launch(sets), CHUNK);
        host[CHUNK - 1] = pattern(2, 0);
        host[CHUNK] = pattern(2, 1);
        wrote(launch(copies), 2 * CHUNK);
        memset(host + CHUNK - 1, 9, 3);
        wrote(CU(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)(a + CHUNK - 1, 9, 3),
              2 * CHUNK);
        wrote(launch(kernels), 0);
    }
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(sets));
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(copies));
}

/* Kernels write `at`, of which nothing is said, three times, and each time it is copied. */
static void kernels_write(CUdeviceptr at) {
    struct {
        CUdeviceptr y, x;
        unsigned long long words;
        unsigned factor;
    } of;
    CUfunction axpy = kernel("axpy");
    a = at;
    memset(host, 0, BYTES);
    to_device(a, host, BYTES);
    of.y = a;
    of.x = a + CHUNK;
    of.words = 8;
    of.factor = 1;
    for (int i = 0; i < 3; i++) {
        void *arguments[] = {&of.y, &of.x, &of.words, &of.factor};
        uint32_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        to_device(a + CHUNK, ones, sizeof ones);
        memcpy(host + CHUNK, ones, sizeof ones);
        MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, CUstream, void **, void **)(axpy, 1, 1, 1, 256, 1, 1, 0, s,
                                                                arguments, NULL));
        wait_for(s);
        for (int word = 0; word < 8; word++) ((uint32_t *)host)[word] += 1;
        copied(BYTES);
        verify();
    }
}

/* What was said ends with the free: kernels write the memory that is there next. */
static void ended(void) {
    set_up();
    release(a);
    CHECK(alloc(BYTES) == a);
    kernels_write(a);
}

/* The program takes it back: its own allocator gives the memory to others. */
static void taken_back(void) {
    set_up();
    rtswap_hint_writable((void *)(uintptr_t)a, BYTES);
    kernels_write(a);
}

/* A free in a stream's order: the next allocation has the place before anything is given back. */
static void ordered(void) {
    CUdeviceptr at, next;
    set_up();
    MUST(CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&at, BYTES, s));
    wait_for(s);
    fill(at, BYTES, 3);
    rtswap_hint_read_only((void *)(uintptr_t)at, BYTES);
    copied(BYTES);
    check(at, BYTES, 3);
    copied(0);
    MUST(CU(cuMemFreeAsync, CUdeviceptr, CUstream)(at, s));
    MUST(CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&next, BYTES, s));
    CHECK(next == at);
    kernels_write(next);
}

PROBES({"copies", copies}, {"sets", sets}, {"untold", untold}, {"graphs", graphs},
       {"ended", ended}, {"ordered", ordered}, {"taken_back", taken_back})
