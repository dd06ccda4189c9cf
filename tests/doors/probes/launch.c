/* Launches of every kind, each at a closed gate, on memory that is not there when it is called. */
#include "probe.h"

enum { WORDS = 3 * MIB / 4, BYTES = 4 * WORDS };

static CUdeviceptr x, y;
static CUfunction axpy;
static uint64_t words = WORDS;
static uint32_t factor = 3;
static uint32_t expected;
static void *arguments[4] = {&y, &x, &words, &factor};

/* CUlaunchConfig. */
struct config {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    unsigned count;
};
/* CUDA_KERNEL_NODE_PARAMS, the first form. */
struct kernel_node {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
};

static void set_up(void) {
    start();
    axpy = kernel("axpy");
    x = alloc(BYTES);
    y = alloc(BYTES);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(x, 1, WORDS));
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(y, 0, WORDS));
    synchronize();
}

/* What one launch of axpy adds to every word. */
static void verify(unsigned launches) {
    expected += launches * factor;
    uint32_t *host = malloc(BYTES);
    to_host(host, y, BYTES);
    for (size_t i = 0; i < WORDS; i++) {
        if (host[i] != expected) fail(__FILE__, __LINE__, "a word is wrong", host[i]);
    }
    free(host);
}

static void launch_as(const char *name, CUstream s) {
    MUST(CU_NAMED(name, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned, CUstream, void **, void **)(axpy, 1, 1, 1, 256, 1, 1, 0, s, arguments,
                                                        NULL));
}

static void once(const char *name, CUstream s) {
    ready(2 * BYTES);
    launch_as(name, s);
    called();
    synchronize();
    verify(1);
}

static void plain(void) {
    set_up();
    once("cuLaunchKernel", NULL);
    once("cuLaunchKernel", stream());
}

/* Work on the NULL stream and on a stream of a green context, which a drain waits for as well: what
 * comes behind the spin still finds its memory. */
static void green(void) {
    struct {
        unsigned kind;
        char padding[92];
        unsigned count;
        char rest[44];
    } resource;
    enum { MULTIPROCESSORS = 1, DEFAULT_STREAM = 1, SPIN_NS = 200 * 1000 * 1000 };
    void *part, *view;
    CUcontext context;
    CUstream s;
    set_up();
    CUfunction spin = kernel("spin");
    MUST(CU(cuDeviceGetDevResource, CUdevice, void *, unsigned)(0, &resource, MULTIPROCESSORS));
    CHECK(resource.count > 0);
    MUST(CU(cuDevResourceGenerateDesc, void **, void *, unsigned)(&part, &resource, 1));
    MUST(CU(cuGreenCtxCreate, void **, void *, CUdevice, unsigned)(&view, part, 0, DEFAULT_STREAM));
    MUST(CU(cuGreenCtxStreamCreate, CUstream *, void *, unsigned, int)(&s, view, NON_BLOCKING, 0));
    MUST(CU(cuCtxFromGreenCtx, CUcontext *, void *)(&context, view));
    MUST(CU(cuCtxSetCurrent, CUcontext)(context));
    CUstream on[] = {NULL, s};
    for (int i = 0; i < 2; i++) {
        once("cuLaunchKernel", on[i]);
        uint64_t ns = SPIN_NS;
        void *spins[] = {&ns};
        MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, CUstream, void **, void **)(spin, 1, 1, 1, 1, 1, 1, 0, on[i],
                                                                spins, NULL));
        launch_as("cuLaunchKernel", on[i]);
        ready(2 * BYTES);
        launch_as("cuLaunchKernel", on[i]);
        called();
        synchronize();
        verify(2);
    }
    /* What is allocated in it outlives it. */
    CUdeviceptr mine = alloc(MIB);
    fill(mine, MIB, 4);
    MUST(CU(cuStreamDestroy_v2, CUstream)(s));
    MUST(CU(cuCtxSetCurrent, CUcontext)(NULL));
    MUST(CU(cuGreenCtxDestroy, void *)(view));
    MUST(CU(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&context, 0));
    MUST(CU(cuCtxSetCurrent, CUcontext)(context));
    once("cuLaunchKernel", NULL);
    check(mine, MIB, 4);
    release(mine);
}

static void per_thread(void) {
    set_up();
    once("cuLaunchKernel_ptsz", NULL);
    once("cuLaunchKernel", (CUstream)2);
}

static void ex(void) {
    static const char *const forms[] = {"cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"};
    set_up();
    struct config config = {.grid = {1, 1, 1}, .block = {256, 1, 1}};
    for (int i = 0; i < 2; i++) {
        ready(2 * BYTES);
        MUST(CU_NAMED(forms[i], const struct config *, CUfunction, void **, void **)(
            &config, axpy, arguments, NULL));
        called();
        synchronize();
        verify(1);
    }
}

static void cooperative(void) {
    static const char *const forms[] = {"cuLaunchCooperativeKernel",
                                        "cuLaunchCooperativeKernel_ptsz"};
    set_up();
    for (int i = 0; i < 2; i++) {
        ready(2 * BYTES);
        MUST(CU_NAMED(forms[i], CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, CUstream, void **)(axpy, 1, 1, 1, 256, 1, 1, 0, NULL,
                                                             arguments));
        called();
        synchronize();
        verify(1);
    }
}

static CUgraphExec graph(CUgraph *made) {
    CUgraphNode node;
    CUgraphExec exec;
    struct kernel_node of = {axpy, {1, 1, 1}, {256, 1, 1}, 0, arguments, NULL};
    MUST(CU(cuGraphCreate, CUgraph *, unsigned)(made, 0));
    MUST(CU(cuGraphAddKernelNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
            const struct kernel_node *)(&node, *made, NULL, 0, &of));
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, *made,
                                                                                    0));
    return exec;
}

static void graph_launch(void) {
    static const char *const forms[] = {"cuGraphLaunch", "cuGraphLaunch_ptsz"};
    CUgraph made;
    set_up();
    CUgraphExec exec = graph(&made);
    CUstream s = stream();
    for (int i = 0; i < 4; i++) {
        ready(2 * BYTES);
        MUST(CU_NAMED(forms[i % 2], CUgraphExec, CUstream)(exec, s));
        called();
        synchronize();
        verify(1);
    }
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(exec));
    MUST(CU(cuGraphDestroy, CUgraph)(made));
}

static void graph_upload(void) {
    CUgraph made;
    set_up();
    CUgraphExec exec = graph(&made);
    CUstream s = stream();
    ready(2 * BYTES);
    MUST(CU(cuGraphUpload, CUgraphExec, CUstream)(exec, s));
    called();
    MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, s));
    synchronize();
    verify(1);
}

static void graph_instantiate(void) {
    CUgraph made;
    set_up();
    graph(&made);
    CUgraphExec exec;
    ready(2 * BYTES);
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, made,
                                                                                    0));
    called();
    MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, stream()));
    synchronize();
    verify(1);
}

/* A capture is one job from its begin to its end; then its graph runs on memory that was out. */
static void capture(void) {
    CUgraph made;
    CUgraphExec exec;
    set_up();
    CUstream s = stream();
    ready(2 * BYTES);
    MUST(CU(cuStreamBeginCapture_v2, CUstream, unsigned)(s, 0));
    called();
    launch_as("cuLaunchKernel", s);
    launch_as("cuLaunchKernel", s);
    MUST(CU(cuStreamEndCapture, CUstream, CUgraph *)(s, &made));
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, made,
                                                                                    0));
    verify(0);
    ready(2 * BYTES);
    MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, s));
    called();
    synchronize();
    verify(2);
}

static void count(void *data) { ++*(int *)data; }
static void count_callback(CUstream s, CUresult status, void *data) {
    (void)s;
    *(int *)data += status == SUCCESS;
}

static void host_function(void) {
    static const char *const forms[] = {"cuLaunchHostFunc", "cuLaunchHostFunc_ptsz"};
    static int calls;
    set_up();
    CUstream s = stream();
    for (int i = 0; i < 2; i++) {
        ready(2 * BYTES);
        MUST(CU_NAMED(forms[i], CUstream, void (*)(void *), void *)(s, count, &calls));
        called();
        launch_as("cuLaunchKernel", s);
        wait_for(s);
        CHECK(calls == i + 1);
        verify(1);
    }
}

static void callback(void) {
    static const char *const forms[] = {"cuStreamAddCallback", "cuStreamAddCallback_ptsz"};
    static int calls;
    set_up();
    CUstream s = stream();
    for (int i = 0; i < 2; i++) {
        ready(2 * BYTES);
        MUST(CU_NAMED(forms[i], CUstream, void (*)(CUstream, CUresult, void *), void *, unsigned)(
            s, count_callback, &calls, 0));
        called();
        wait_for(s);
        CHECK(calls == i + 1);
        verify(0);
    }
}

/* Work of many streams is all done before the memory leaves. */
static void streams(void) {
    enum { COUNT = 6 };
    CUstream made[COUNT];
    CUevent done;
    set_up();
    MUST(CU(cuEventCreate, CUevent *, unsigned)(&done, 2));
    for (int i = 0; i < COUNT; i++) made[i] = stream();
    for (int round = 0; round < 3; round++) {
        ready(2 * BYTES);
        for (int i = 0; i < COUNT; i++) {
            launch_as("cuLaunchKernel", made[i]);
            if (i == 0) called();
            MUST(CU(cuEventRecord, CUevent, CUstream)(done, made[i]));
            MUST(CU(cuStreamWaitEvent, CUstream, CUevent, unsigned)(made[(i + 1) % COUNT], done, 0));
        }
        for (int i = 0; i < COUNT; i++) wait_for(made[i]);
        verify(COUNT);
    }
}

PROBES({"kernel", plain}, {"green", green}, {"per_thread", per_thread}, {"kernel_ex", ex},
       {"cooperative", cooperative}, {"graph", graph_launch}, {"graph_upload", graph_upload},
       {"graph_instantiate", graph_instantiate}, {"capture", capture},
       {"host_function", host_function}, {"callback", callback}, {"streams", streams})
