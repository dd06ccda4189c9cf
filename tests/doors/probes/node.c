/* Nodes of graphs that allocate, and nodes by CUgraphNodeParams, one structure for all kinds. */
#include "probe.h"

enum { BYTES = 3 * MIB, WORDS = BYTES / 4 };

/* CUgraphNodeType. */
enum { KERNEL, COPY, SET, CALL, CHILD, EMPTY, WAIT, RECORD, ALLOC = 10, FREE };
/* CUmemorytype and CUmemLocationType. */
enum { IN_DEVICE = 2, ON_DEVICE = 1, PINNED = 1 };

/* CUDA_MEM_ALLOC_NODE_PARAMS. */
struct memory {
    struct {
        unsigned kind, handle_types, location, id;
        void *security;
        size_t most;
        unsigned char rest[56];
    } pool;
    void *access;
    size_t access_count, bytes;
    CUdeviceptr at;
};
/* CUDA_MEMCPY3D. */
struct end {
    size_t x, y, z, lod;
    unsigned type;
    const void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
};
/* CUgraphNodeParams. */
struct node {
    unsigned kind;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct {
            CUfunction function;
            unsigned grid[3], block[3], shared;
            void **params, **extra, *kernel, *context;
        } kernel;
        struct {
            int flags, reserved;
            CUcontext context;
            struct end from, to;
            size_t width, height, depth;
        } copy;
        struct {
            CUdeviceptr to;
            size_t pitch;
            unsigned value, size;
            size_t width, height;
            CUcontext context;
        } set;
        struct {
            void (*function)(void *);
            void *data;
        } call;
        CUgraph child;
        CUevent event;
        struct memory memory;
        CUdeviceptr freed;
    } of;
    long long reserved2;
};
_Static_assert(sizeof(struct node) == 256 && offsetof(struct node, of) == 16, "cuda.h has it so");

static CUgraph made(void) {
    CUgraph graph;
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    return graph;
}

static CUgraphExec instantiated(CUgraph graph) {
    CUgraphExec exec;
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph,
                                                                                    0));
    return exec;
}

static void launch(CUgraphExec exec) {
    MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, NULL));
    synchronize();
}

/* The node becomes the last one. */
typedef void add_node(CUgraph graph, CUgraphNode *last, struct node *params);

static void added(CUresult result, const struct node *params) {
    if (result != SUCCESS) fprintf(stderr, "a node of kind %u\n", params->kind);
    MUST(result);
}

static void add(CUgraph graph, CUgraphNode *last, struct node *params) {
    added(CU(cuGraphAddNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, struct node *)(
              last, graph, last, *last != NULL, params),
          params);
}

static void add_v2(CUgraph graph, CUgraphNode *last, struct node *params) {
    added(CU(cuGraphAddNode_v2, CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t,
             struct node *)(last, graph, last, NULL, *last != NULL, params),
          params);
}

/* The form of one kind, for the node that allocates. */
static void add_former(CUgraph graph, CUgraphNode *last, struct node *params) {
    if (params->kind != ALLOC) {
        add(graph, last, params);
        return;
    }
    MUST(CU(cuGraphAddMemAllocNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            struct memory *)(last, graph, last, *last != NULL, &params->of.memory));
}

/* Adds the node that allocates on GPU 0 while GPU 1 is current. */
static void add_from_other(add_node *by, CUgraph graph, CUgraphNode *last, struct node *params) {
    CUcontext own, other;
    MUST(CU(cuCtxGetCurrent, CUcontext *)(&own));
    if (params->kind == ALLOC) {
        MUST(CU(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&other, 1));
        MUST(CU(cuCtxSetCurrent, CUcontext)(other));
    }
    by(graph, last, params);
    MUST(CU(cuCtxSetCurrent, CUcontext)(own));
}

static void add_other(CUgraph graph, CUgraphNode *last, struct node *params) {
    add_from_other(add, graph, last, params);
}

static void add_other_former(CUgraph graph, CUgraphNode *last, struct node *params) {
    add_from_other(add_former, graph, last, params);
}

static struct node allocation(void) {
    return (struct node){
        .kind = ALLOC,
        .of.memory = {.pool = {.kind = PINNED, .location = ON_DEVICE}, .bytes = BYTES}};
}

/* Where a set or a copy names no context the driver takes that of its memory. What a graph or a pool allocates has none. */
static struct node set(CUdeviceptr to, unsigned value) {
    return (struct node){.kind = SET,
                         .of.set = {.to = to, .value = value, .size = 4, .width = WORDS, .height = 1}};
}

static struct node copy(CUdeviceptr to, CUdeviceptr from) {
    return (struct node){.kind = COPY,
                         .of.copy = {.from = {.type = IN_DEVICE, .device = from},
                                     .to = {.type = IN_DEVICE, .device = to},
                                     .width = BYTES,
                                     .height = 1,
                                     .depth = 1}};
}

static void words_are(CUdeviceptr at, unsigned value) {
    uint32_t *host = malloc(BYTES);
    to_host(host, at, BYTES);
    for (size_t i = 0; i < WORDS; i++) {
        if (host[i] != value) fail(__FILE__, __LINE__, "a word is wrong", host[i]);
    }
    free(host);
}

/* A graph that allocates, uses and frees: what the driver reserved for it stays until it is trimmed. */
static void memory_by(add_node *by) {
    CUcontext here = start();
    CUdeviceptr kept = alloc(BYTES);
    base();
    CUgraph graph = made();
    CUgraphNode last = NULL;
    struct node memory = allocation();
    by(graph, &last, &memory);
    CUdeviceptr at = memory.of.memory.at;
    CHECK(at);
    struct node nodes[] = {set(at, 0x1234567), copy(kept, at), {.kind = FREE, .of.freed = at}};
    nodes[0].of.set.context = nodes[1].of.copy.context = here;
    for (int i = 0; i < 3; i++) by(graph, &last, &nodes[i]);
    /* The agent looks what the driver holds before the graph has run. */
    base();
    CUgraphExec exec = instantiated(graph);
    launch(exec);
    words_are(kept, 0x1234567);
    ready(BYTES);
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(exec));
    MUST(CU(cuGraphDestroy, CUgraph)(graph));
    MUST(CU(cuDeviceGraphMemTrim, CUdevice)(0));
    freed();
}

static void memory_former(void) { memory_by(add_former); }
static void memory(void) { memory_by(add); }
static void memory_v2(void) { memory_by(add_v2); }
static void memory_other(void) { memory_by(add_other); }
static void memory_other_former(void) { memory_by(add_other_former); }

static void count(void *data) { ++*(int *)data; }

/* Nodes name memory that is out, and are changed while it is. */
static void any(void) {
    static CUdeviceptr x, y;
    static uint64_t words = WORDS;
    static uint32_t factor = 3;
    static void *arguments[4] = {&y, &x, &words, &factor};
    static int calls;
    add_node *const by[] = {add, add_v2};
    start();
    CUfunction axpy = kernel("axpy");
    x = alloc(BYTES);
    y = alloc(BYTES);
    for (int i = 0; i < 2; i++) {
        CUgraph graph = made(), child = made();
        CUgraphNode last = NULL, within = NULL, setter;
        struct node one = set(x, 1), two = set(y, 5);
        struct node sum = {.kind = KERNEL,
                           .of.kernel = {.function = axpy, .grid = {1, 1, 1}, .block = {256, 1, 1},
                                         .params = arguments}};
        struct node call = {.kind = CALL, .of.call = {count, &calls}};
        struct node inner = {.kind = CHILD, .of.child = child}, nothing = {.kind = EMPTY};
        ready(2 * BYTES);
        by[i](child, &within, &two);
        called();
        by[i](graph, &last, &one);
        setter = last;
        by[i](graph, &last, &inner);
        by[i](graph, &last, &nothing);
        by[i](graph, &last, &sum);
        by[i](graph, &last, &call);
        CUgraphExec exec = instantiated(graph);
        launch(exec);
        words_are(y, 5 + 3);
        ready(2 * BYTES);
        one = set(x, 2);
        MUST(CU(cuGraphExecNodeSetParams, CUgraphExec, CUgraphNode, struct node *)(exec, setter,
                                                                                  &one));
        called();
        launch(exec);
        words_are(y, 5 + 2 * 3);
        CHECK(calls == 2 * (i + 1));
        /* What the driver does not know it gets as it is. */
        struct node odd = {.kind = 99};
        CHECK(CU(cuGraphAddNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                 struct node *)(&last, graph, NULL, 0, &odd) != SUCCESS);
        CHECK(odd.kind == 99);
    }
}

PROBES({"memory_former", memory_former}, {"memory", memory}, {"memory_v2", memory_v2},
       {"memory_other", memory_other}, {"memory_other_former", memory_other_former}, {"any", any})
