/* Streams of every priority, each with work of its own, that are asked whether they are done. */
#include "program.h"

enum { COUNT = 4, WORDS = 1 << 14, BYTES = WORDS * 4, NOT_READY = 600 };

static CUfunction add;
static CUdeviceptr buffers[COUNT];

static void round_of(void) {
    int least, greatest;
    CUstream streams[COUNT];
    MUST(CU(cuCtxGetStreamPriorityRange, int *, int *)(&least, &greatest));
    for (int i = 0; i < COUNT; i++) {
        int wanted = greatest + (int)below((unsigned)(least - greatest) + 1), is;
        MUST(CU(cuStreamCreateWithPriority, CUstream *, unsigned, int)(&streams[i], NON_BLOCKING, wanted));
        MUST(CU(cuStreamGetPriority, CUstream, int *)(streams[i], &is));
        CHECK(is == wanted);
        saw((uint64_t)(int64_t)is);
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        unsigned on = below(COUNT);
        unsigned half = below(2) * (WORDS / 2);
        set_words(buffers[on] + 4 * half, (uint32_t)next(), WORDS / 2, streams[on]);
        axpy(add, streams[on], buffers[on], buffers[on], WORDS, (uint32_t)next());
    }
    for (int i = 0; i < COUNT; i++) {
        CUresult state;
        while ((state = CU(cuStreamQuery, CUstream)(streams[i])) == NOT_READY) usleep(20);
        MUST(state);
        saw_device(buffers[i], BYTES);
        MUST(CU(cuStreamDestroy_v2, CUstream)(streams[i]));
    }
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = apart(BYTES);
        fill(buffers[i], BYTES, (unsigned)i);
    }
    rounds(argc, argv, round_of);
    return 0;
}
