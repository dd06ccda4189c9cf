/* Data that goes between GPU and host functions in the order of a stream. */
#include "program.h"

enum { WORDS = 1 << 13, BYTES = WORDS * 4, TURNS = 3 };

struct task {
    uint32_t *words;
    uint32_t key;
};

static CUfunction add;
static CUdeviceptr here, there;
static CUstream on;
static uint32_t *host;
static unsigned called_back;

static void change(void *data) {
    struct task *task = data;
    for (int i = 0; i < WORDS; i++) task->words[i] = (task->words[i] ^ task->key) * 2654435761u;
}

static void tell(CUstream stream, CUresult result, void *data) {
    (void)stream;
    CHECK(result == SUCCESS);
    ++*(unsigned *)data;
}

static void round_of(void) {
    struct task tasks[TURNS];
    randomize_device(here, BYTES);
    for (int i = 0; i < TURNS; i++) {
        tasks[i] = (struct task){host, (uint32_t)next()};
        axpy(add, on, here, there, WORDS, (uint32_t)next());
        MUST(CU(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)(host, here, BYTES, on));
        MUST(CU(cuLaunchHostFunc, CUstream, void (*)(void *), void *)(on, change, &tasks[i]));
        MUST(CU(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)(there, host, BYTES, on));
        if (below(2)) {
            unsigned before = called_back;
            MUST(CU(cuStreamAddCallback, CUstream, void (*)(CUstream, CUresult, void *), void *, unsigned)(
                on, tell, &called_back, 0));
            wait_for(on);
            CHECK(called_back == before + 1);
        }
    }
    wait_for(on);
    saw_device(here, BYTES);
    saw_device(there, BYTES);
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    here = apart(BYTES);
    there = apart(BYTES);
    fill(there, BYTES, 1);
    on = stream();
    host = pinned(BYTES);
    rounds(argc, argv, round_of);
    return 0;
}
