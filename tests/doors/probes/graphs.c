/* Graphs whose nodes copy, set and call, every way to instantiate and to capture one, and streams of a priority: each door
 * is tried at a closed gate, on memory that is not there. */
#include "probe.h"

enum { BYTES = 3 * MIB, DEVICE = 2 };

/* CUDA_MEMCPY3D. */
struct side {
    size_t x, y, z, lod;
    unsigned type;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
};
struct copy {
    struct side from, to;
    size_t width, height, depth;
};
/* CUDA_MEMSET_NODE_PARAMS. */
struct set {
    CUdeviceptr to;
    size_t pitch;
    unsigned value, bytes;
    size_t width, height;
};
/* CUDA_HOST_NODE_PARAMS. */
struct host {
    void (*function)(void *);
    void *data;
};
/* CUDA_GRAPH_INSTANTIATE_PARAMS. */
struct wanted {
    unsigned long long flags;
    CUstream upload;
    CUgraphNode failed;
    int result;
};

static CUdeviceptr a, b, c;
static CUcontext here;
static CUgraph graph;
static CUgraphNode node;
static CUgraphExec exec;
static CUstream s;

static void set_up(void) {
    here = start();
    a = alloc(BYTES);
    b = alloc(BYTES);
    c = alloc(BYTES);
    s = stream();
    fill(a, BYTES, 1);
    fill(b, BYTES, 2);
    fill(c, BYTES, 3);
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    synchronize();
}

/* One call on memory that is out. */
#define HELD(call)                                                                          \
    do {                                                                                    \
        ready(3 * BYTES);                                                                   \
        MUST(call);                                                                         \
        called();                                                                           \
    } while (0)

static void instantiate(void) {
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph,
                                                                                    0));
}

/* Launches on memory that is out; b then has the pattern, and gets its own again. */
static void run(unsigned seed) {
    HELD(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, s));
    wait_for(s);
    check(b, BYTES, seed);
    fill(b, BYTES, 2);
}

static struct copy copy_of(CUdeviceptr from) {
    return (struct copy){.from = {.type = DEVICE, .device = from, .pitch = BYTES, .height = 1},
                         .to = {.type = DEVICE, .device = b, .pitch = BYTES, .height = 1},
                         .width = BYTES,
                         .height = 1,
                         .depth = 1};
}

static CUresult add_copy(const struct copy *copy) {
    return CU(cuGraphAddMemcpyNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
              const struct copy *, CUcontext)(&node, graph, NULL, 0, copy, here);
}

static void copies(void) {
    set_up();
    struct copy of_a = copy_of(a), of_c = copy_of(c);
    HELD(add_copy(&of_a));
    instantiate();
    run(1);
    HELD(CU(cuGraphExecMemcpyNodeSetParams, CUgraphExec, CUgraphNode, const struct copy *,
            CUcontext)(exec, node, &of_c, here));
    run(3);
}

/* Every byte of b is the value; then b is its own again. */
static void run_set(unsigned char value) {
    HELD(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, s));
    wait_for(s);
    unsigned char *back = malloc(BYTES);
    CHECK(back);
    to_host(back, b, BYTES);
    for (size_t i = 0; i < BYTES; i++) CHECK(back[i] == value);
    free(back);
    fill(b, BYTES, 2);
}

static void sets(void) {
    set_up();
    struct set set = {.to = b, .value = 0x5a, .bytes = 1, .width = BYTES, .height = 1};
    HELD(CU(cuGraphAddMemsetNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            const struct set *, CUcontext)(&node, graph, NULL, 0, &set, here));
    instantiate();
    run_set(0x5a);
    set.value = 0x77;
    HELD(CU(cuGraphExecMemsetNodeSetParams, CUgraphExec, CUgraphNode, const struct set *,
            CUcontext)(exec, node, &set, here));
    run_set(0x77);
}

static void count(void *data) { ++*(int *)data; }

static void hosts(void) {
    int first = 0, second = 0;
    set_up();
    struct copy of_a = copy_of(a);
    struct host host = {count, &first};
    MUST(add_copy(&of_a));
    MUST(CU(cuGraphAddHostNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            const struct host *)(&node, graph, NULL, 0, &host));
    instantiate();
    run(1);
    CHECK(first == 1);
    host.data = &second;
    MUST(CU(cuGraphExecHostNodeSetParams, CUgraphExec, CUgraphNode, const struct host *)(exec, node,
                                                                                        &host));
    run(1);
    CHECK(first == 1 && second == 1);
}

static void forms(void) {
    static const char *const logged[] = {"cuGraphInstantiate", "cuGraphInstantiate_v2"};
    static const char *const wanted[] = {"cuGraphInstantiateWithParams",
                                         "cuGraphInstantiateWithParams_ptsz"};
    set_up();
    struct copy of_a = copy_of(a);
    MUST(add_copy(&of_a));
    for (int i = 0; i < 2; i++) {
        HELD(CU_NAMED(logged[i], CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t)(
            &exec, graph, NULL, NULL, 0));
        run(1);
    }
    for (int i = 0; i < 2; i++) {
        struct wanted params = {0};
        HELD(CU_NAMED(wanted[i], CUgraphExec *, CUgraph, struct wanted *)(&exec, graph, &params));
        CHECK(params.result == 0);
        run(1);
    }
    HELD(CU(cuGraphUpload_ptsz, CUgraphExec, CUstream)(exec, s));
    run(1);
}

/* The instance becomes what another graph says. */
static void update(void) {
    int result = -1;
    CUgraphNode failed;
    set_up();
    struct copy of_a = copy_of(a), of_c = copy_of(c);
    MUST(add_copy(&of_a));
    instantiate();
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    MUST(add_copy(&of_c));
    HELD(CU(cuGraphExecUpdate, CUgraphExec, CUgraph, CUgraphNode *, int *)(exec, graph, &failed,
                                                                          &result));
    CHECK(result == 0);
    run(3);
}

/* A stream captures a copy; `begin` was called. */
static void captured(const char *end) {
    MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(b, a, BYTES, s));
    MUST(CU_NAMED(end, CUstream, CUgraph *)(s, &graph));
    instantiate();
    run(1);
}

static void captures(void) {
    static const char *const to_graph[] = {"cuStreamBeginCaptureToGraph",
                                           "cuStreamBeginCaptureToGraph_ptsz"};
    set_up();
    HELD(CU(cuStreamBeginCapture, CUstream)(s));
    captured("cuStreamEndCapture");
    HELD(CU(cuStreamBeginCapture_ptsz, CUstream)(s));
    captured("cuStreamEndCapture_ptsz");
    HELD(CU(cuStreamBeginCapture_v2_ptsz, CUstream, unsigned)(s, 0));
    captured("cuStreamEndCapture_ptsz");
    for (int i = 0; i < 2; i++) {
        MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
        HELD(CU_NAMED(to_graph[i], CUstream, CUgraph, const CUgraphNode *, const void *, size_t,
                      unsigned)(s, graph, NULL, NULL, 0, 0));
        captured("cuStreamEndCapture");
    }
}

static void priority(void) {
    set_up();
    for (int i = 0; i < 2; i++) {
        MUST(CU(cuStreamCreateWithPriority, CUstream *, unsigned, int)(&s, NON_BLOCKING, 0));
        HELD(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(b, a, BYTES, s));
        /* Its copy is still done. */
        MUST(CU(cuStreamDestroy, CUstream)(s));
        synchronize();
        check(b, BYTES, 1);
        fill(b, BYTES, 2);
    }
}

PROBES({"copies", copies}, {"sets", sets}, {"hosts", hosts}, {"forms", forms}, {"update", update},
       {"captures", captures}, {"priority", priority})
