/* Launches as fast as it can from several threads, for a gate that closes under it.
 *
 * gate THREADS
 *
 * Every thread has a stream and a buffer of its own and adds 1 to each word per launch, until a
 * line comes on standard input. Then it checks every word:
 *   {"launches":N,"wrong_words":N}
 * A launch that slips through a closed gate touches memory that is not there: the simulated GPU
 * then makes the context fail for good, and the probe exits with 3.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORDS = 1 << 12, MOST = 16 };

static atomic_int stop;
static CUfunction axpy;
static CUcontext context;
static CUdeviceptr buffers[MOST], one;
static uint32_t launches[MOST];

CUresult cuCtxGetCurrent(CUcontext *current);

static void *launcher(void *argument) {
    size_t me = (size_t)argument;
    CUstream stream;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, 1));
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        probe_axpy(axpy, stream, buffers[me], one, WORDS, 1);
        launches[me]++;
        if (launches[me] % 8 == 0) MUST(cuStreamSynchronize(stream));
    }
    MUST(cuStreamSynchronize(stream));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    size_t threads = strtoul(argv[1], NULL, 10);
    if (threads == 0 || threads > MOST) return 2;
    pthread_t handles[MOST];
    axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    MUST(cuMemsetD32_v2(one, 1, WORDS));
    for (size_t i = 0; i < threads; i++) {
        /* Each in a chunk of its own, and none without one: more would only copy more at each closing. */
        CUdeviceptr gap;
        MUST(cuMemAlloc_v2(&buffers[i], 4 * WORDS));
        if (i + 1 < threads) MUST(cuMemAlloc_v2(&gap, (2 << 20) - 4 * WORDS));
        MUST(cuMemsetD32_v2(buffers[i], 0, WORDS));
    }
    MUST(cuCtxSynchronize());
    for (size_t i = 0; i < threads; i++) pthread_create(&handles[i], NULL, launcher, (void *)i);
    printf("ready\n");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) < 0) return 2;
    atomic_store(&stop, 1);
    unsigned long total = 0, wrong = 0;
    uint32_t *host = malloc(4 * WORDS);
    for (size_t i = 0; i < threads; i++) {
        pthread_join(handles[i], NULL);
        MUST(cuMemcpyDtoH_v2(host, buffers[i], 4 * WORDS));
        for (size_t w = 0; w < WORDS; w++) wrong += host[w] != launches[i];
        total += launches[i];
    }
    printf("{\"launches\":%lu,\"wrong_words\":%lu}\n", total, wrong);
    return 0;
}
