/* Many streams of each kind, on each of which a drain must wait.
 *
 * streams STREAMS
 *
 * Three threads launch without a pause until something comes on standard input: one on STREAMS
 * non-blocking streams in turn, which it makes anew every so often, one on STREAMS ordinary ones,
 * one on its per-thread stream. Each stream has a buffer of its own, to each word of which a
 * launch adds 1. Then every word is checked.
 *   {"launches":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORDS = 1 << 10, MOST = 256, THREADS = 3, AGE = 500 };

CUresult cuCtxGetCurrent(CUcontext *current);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                             unsigned bx, unsigned by, unsigned bz, unsigned shared,
                             CUstream stream, void **params, void **extra);

static atomic_int stop;
static CUfunction axpy;
static CUcontext context;
static CUdeviceptr one, buffers[THREADS][MOST];
static uint32_t launches[THREADS][MOST];
static int streams;

static void *launcher(void *argument) {
    size_t me = (size_t)argument;
    int count = me == 2 ? 1 : streams, at = 0;
    CUstream mine[MOST] = {0};
    uint32_t age = 0;
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; me < 2 && i < count; i++) MUST(cuStreamCreate(&mine[i], me == 0));
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        if (me == 2) {
            uint64_t words = WORDS;
            uint32_t add = 1;
            void *params[] = {&buffers[me][at], &one, &words, &add};
            MUST(cuLaunchKernel_ptsz(axpy, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
        } else {
            probe_axpy(axpy, mine[at], buffers[me][at], one, WORDS, 1);
        }
        launches[me][at]++;
        at = (at + 1) % count;
        if (me == 0 && ++age % AGE == 0) {
            /* Its work may outlive it; the next one often has its handle. */
            MUST(cuStreamDestroy_v2(mine[at]));
            MUST(cuStreamCreate(&mine[at], 1));
            /* The buffer has another stream from now on. */
            MUST(cuCtxSynchronize());
        }
        if (launches[me][at] % 4 == 0) usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    streams = atoi(argv[1]);
    if (streams < 1 || streams > MOST) return 2;
    pthread_t threads[THREADS];
    axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    MUST(cuMemsetD32_v2(one, 1, WORDS));
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < streams; i++) {
            MUST(cuMemAlloc_v2(&buffers[thread][i], 4 * WORDS));
            MUST(cuMemsetD32_v2(buffers[thread][i], 0, WORDS));
        }
    MUST(cuCtxSynchronize());
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, launcher, (void *)i);
    printf("ready\n");
    fflush(stdout);
    char byte;
    if (read(0, &byte, 1) < 0) return 2;
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MUST(cuCtxSynchronize());
    unsigned long total = 0, wrong = 0;
    uint32_t host[WORDS];
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < streams; i++) {
            MUST(cuMemcpyDtoH_v2(host, buffers[thread][i], sizeof host));
            for (int word = 0; word < WORDS; word++) wrong += host[word] != launches[thread][i];
            total += launches[thread][i];
        }
    printf("{\"launches\":%lu,\"wrong_words\":%lu}\n", total, wrong);
    return 0;
}
