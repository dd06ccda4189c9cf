/* Uses memory and launches at random, and says at each `ready` that nothing is held: whatever it has
 * by then is the driver's and the agent's. */
#include "probe.h"

enum { OBJECTS = 24, MOST = 3 * MIB, ROUNDS = 400 };

static unsigned random_state = 1;

static unsigned next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void churn(void) {
    CUdeviceptr at[OBJECTS] = {0};
    size_t bytes[OBJECTS];
    uint64_t words;
    uint32_t factor = 1;
    CUdeviceptr x, y;
    void *arguments[] = {&y, &x, &words, &factor};
    start();
    CUfunction axpy = kernel("axpy");
    CUstream s = stream();
    ready(0);
    for (int block = 0; block < 8; block++) {
        for (int round = 0; round < ROUNDS; round++) {
            unsigned i = next_random() % OBJECTS;
            if (at[i]) {
                release(at[i]);
                at[i] = 0;
                continue;
            }
            bytes[i] = next_random() % (MOST / 4) * 4 + 4;
            if (round % 16) bytes[i] = bytes[i] / 64 * 4 + 4;
            at[i] = alloc(bytes[i]);
            x = y = at[i];
            words = bytes[i] / 4 < 1024 ? bytes[i] / 4 : 1024;
            MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, unsigned, CUstream, void **, void **)(axpy, 1, 1, 1, 256, 1, 1, 0, s,
                                                                    arguments, NULL));
            if (round % 100 == 99) ready(0);
        }
        synchronize();
        for (int i = 0; i < OBJECTS; i++) {
            if (at[i]) release(at[i]);
            at[i] = 0;
        }
        say("block");
        turn();
    }
}

PROBES({"churn", churn})
