/* Work that is captured on one stream, forks to another by an event and comes back, and is launched as a graph. */
#include "program.h"

enum { WORDS = 1 << 13, BYTES = WORDS * 4, MODES = 3 };

static CUfunction add;
static CUdeviceptr main_buffer, side_buffer;
static CUstream main_stream, side_stream;
static CUevent fork_event, join_event;
static uint32_t *host;

static void some_work(CUdeviceptr at, CUdeviceptr other, CUstream stream) {
    switch (below(3)) {
    case 0:
        set_words(at + 4 * below(WORDS / 2), (uint32_t)next(), WORDS / 2, stream);
        break;
    case 1:
        copy_within(at, at + BYTES / 2, BYTES / 2, stream);
        break;
    default:
        axpy(add, stream, at, other, WORDS, (uint32_t)next());
    }
}

static void round_of(void) {
    CUgraph graph;
    CUgraphExec exec;
    randomize(host, BYTES);
    MUST(CU(cuStreamBeginCapture_v2, CUstream, int)(main_stream, (int)below(MODES)));
    MUST(CU(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)(main_buffer, host, BYTES, main_stream));
    some_work(main_buffer, main_buffer, main_stream);
    record(fork_event, main_stream);
    after(side_stream, fork_event);
    for (unsigned left = 1 + below(3); left > 0; left--) some_work(side_buffer, side_buffer, side_stream);
    some_work(main_buffer, main_buffer, main_stream);
    record(join_event, side_stream);
    after(main_stream, join_event);
    some_work(main_buffer, side_buffer, main_stream);
    MUST(CU(cuStreamEndCapture, CUstream, CUgraph *)(main_stream, &graph));
    size_t nodes = 0;
    MUST(CU(cuGraphGetNodes, CUgraph, CUgraphNode *, size_t *)(graph, NULL, &nodes));
    saw(nodes);
    MUST(CU(cuGraphInstantiateWithFlags, CUgraphExec *, CUgraph, unsigned long long)(&exec, graph, 0));
    for (unsigned left = 1 + below(3); left > 0; left--) MUST(CU(cuGraphLaunch, CUgraphExec, CUstream)(exec, main_stream));
    wait_for(main_stream);
    MUST(CU(cuGraphExecDestroy, CUgraphExec)(exec));
    MUST(CU(cuGraphDestroy, CUgraph)(graph));
    saw_device(main_buffer, BYTES);
    saw_device(side_buffer, BYTES);
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    main_buffer = apart(BYTES);
    side_buffer = apart(BYTES);
    fill(side_buffer, BYTES, 1);
    main_stream = stream();
    side_stream = stream();
    fork_event = event();
    join_event = event();
    host = pinned(BYTES);
    rounds(argc, argv, round_of);
    return 0;
}
