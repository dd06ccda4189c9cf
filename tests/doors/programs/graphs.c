/* Graphs that are built node by node, launched, changed node by node, and changed as a whole. */
#include "program.h"

enum { WORDS = 1 << 13, BYTES = WORDS * 4, MOST = 6 };

struct kernel_node {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    void *kernel, *context;
};
struct set_node {
    CUdeviceptr to;
    size_t pitch;
    unsigned value, width;
    size_t count, rows;
};
struct update {
    int result;
    CUgraphNode error, from;
};

/* What a node does, and the places that its arguments lie at. */
struct work {
    int is_kernel;
    CUdeviceptr to, from;
    uint64_t words;
    uint32_t factor;
    void *params[4];
};

static CUcontext context;
static CUfunction add;
static CUdeviceptr buffers[2];
static CUstream on;

static struct work some_work(int is_kernel) {
    return (struct work){.is_kernel = is_kernel,
                         .to = buffers[below(2)],
                         .from = buffers[below(2)],
                         .words = 1 + below(WORDS),
                         .factor = (uint32_t)next()};
}

static struct kernel_node as_kernel(struct work *work) {
    work->params[0] = &work->to;
    work->params[1] = &work->from;
    work->params[2] = &work->words;
    work->params[3] = &work->factor;
    return (struct kernel_node){add, {4, 1, 1}, {64, 1, 1}, 0, work->params, NULL, NULL, NULL};
}

static struct set_node as_set(const struct work *work) {
    return (struct set_node){work->to, 0, work->factor, 4, work->words, 1};
}

/* Each node comes after the one before: they share buffers. */
static CUgraph built(struct work *works, CUgraphNode *nodes, unsigned count) {
    CUgraph graph;
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(&graph, 0));
    for (unsigned i = 0; i < count; i++) {
        const CUgraphNode *before = i ? &nodes[i - 1] : NULL;
        if (works[i].is_kernel) {
            struct kernel_node node = as_kernel(&works[i]);
            MUST(CU(cuGraphAddKernelNode_v2, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                    const struct kernel_node *)(&nodes[i], graph, before, i > 0, &node));
        } else {
            struct set_node node = as_set(&works[i]);
            MUST(CU(cuGraphAddMemsetNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const struct set_node *,
                    CUcontext)(&nodes[i], graph, before, i > 0, &node, context));
        }
    }
    return graph;
}

static void launch(CUgraphExec exec) { MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, on)); }

static void round_of(void) {
    struct work works[MOST];
    CUgraphNode nodes[MOST];
    CUgraphExec exec;
    unsigned count = 2 + below(MOST - 1);
    randomize_device(buffers[below(2)], BYTES);
    for (unsigned i = 0; i < count; i++) works[i] = some_work((int)below(2));
    CUgraph graph = built(works, nodes, count);
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph, 0));
    launch(exec);
    unsigned changed = below(count);
    works[changed] = some_work(works[changed].is_kernel);
    if (works[changed].is_kernel) {
        struct kernel_node node = as_kernel(&works[changed]);
        MUST(CU(cuGraphExecKernelNodeSetParams_v2, CUgraphExec, CUgraphNode, const struct kernel_node *)(
            exec, nodes[changed], &node));
    } else {
        struct set_node node = as_set(&works[changed]);
        MUST(CU(cuGraphExecMemsetNodeSetParams, CUgraphExec, CUgraphNode, const struct set_node *, CUcontext)(
            exec, nodes[changed], &node, context));
    }
    launch(exec);
    for (unsigned i = 0; i < count; i++) works[i] = some_work(works[i].is_kernel);
    CUgraph other = built(works, nodes, count);
    struct update update = {0};
    MUST(CU(cuGraphExecUpdate_v2, CUgraphExec, CUgraph, struct update *)(exec, other, &update));
    CHECK(update.result == 0);
    launch(exec);
    wait_for(on);
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(exec));
    MUST(CU(cuGraphDestroy, CUgraph)(graph));
    MUST(CU(cuGraphDestroy, CUgraph)(other));
    saw_device(buffers[0], BYTES);
    saw_device(buffers[1], BYTES);
}

int main(int argc, char **argv) {
    context = start();
    add = kernel("axpy");
    for (unsigned i = 0; i < 2; i++) {
        buffers[i] = apart(BYTES);
        fill(buffers[i], BYTES, i);
    }
    on = stream();
    rounds(argc, argv, round_of);
    return 0;
}
