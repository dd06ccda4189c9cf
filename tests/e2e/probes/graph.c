/* A capture that a closing gate must leave alone, and a graph's host node that waits for a thread.
 *
 * Each line of standard input is the next step: begin a capture on a stream, put a set of memory
 * into it and end it, add a host node to a graph and launch that, let another thread set memory,
 * for which the host node waits. What it says at its end: how long that took, and wrong words.
 *   {"waited_ms":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1 << 18, THREAD_LOCAL = 1 };

typedef struct {
    void (*function)(void *);
    void *data;
} host_node;

CUresult cuCtxGetCurrent(CUcontext *current);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, unsigned mode);
CUresult cuStreamEndCapture(CUstream stream, void **graph);
CUresult cuGraphAddHostNode(void **node, void *graph, void *const *after, size_t count,
                            const host_node *host);
CUresult cuGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags);
CUresult cuGraphLaunch(void *graph, CUstream stream);

static atomic_int may_set, is_set;
static CUcontext context;
static CUdeviceptr buffers[2];
static long waited_ms;

static long now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void say(const char *word) {
    printf("%s\n", word);
    fflush(stdout);
}

static void step(void) {
    char byte;
    if (read(0, &byte, 1) != 1) exit(2);
}

static void host(void *flag) {
    say("waiting");
    while (!atomic_load((atomic_int *)flag)) usleep(100);
}

static void *setter(void *unused) {
    CUstream stream;
    (void)unused;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, 1));
    while (!atomic_load(&may_set)) usleep(100);
    long start = now_ms();
    MUST(cuMemsetD32Async(buffers[1], 7, WORDS, stream));
    waited_ms = now_ms() - start;
    MUST(cuStreamSynchronize(stream));
    atomic_store(&is_set, 1);
    return NULL;
}

int main(void) {
    CUstream stream;
    pthread_t thread;
    void *graph, *node, *made;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    for (int i = 0; i < 2; i++) {
        MUST(cuMemAlloc_v2(&buffers[i], 4 * WORDS));
        MUST(cuMemsetD32_v2(buffers[i], 1, WORDS));
    }
    MUST(cuStreamCreate(&stream, 1));
    pthread_create(&thread, NULL, setter, NULL);
    say("ready");

    step();
    MUST(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    say("begun");
    step();
    MUST(cuMemsetD32Async(buffers[0], 7, WORDS, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    host_node params = {host, &is_set};
    MUST(cuGraphAddHostNode(&node, graph, NULL, 0, &params));
    say("ended");
    step();
    MUST(cuGraphInstantiateWithFlags(&made, graph, 0));
    MUST(cuGraphLaunch(made, stream));
    step();
    atomic_store(&may_set, 1);
    pthread_join(thread, NULL);
    MUST(cuStreamSynchronize(stream));
    say("done");
    step();
    /* Once more: its host node finds the flag set. */
    MUST(cuMemsetD32Async(buffers[0], 2, WORDS, stream));
    MUST(cuGraphLaunch(made, stream));
    MUST(cuStreamSynchronize(stream));
    uint32_t *words = malloc(4 * WORDS);
    int wrong = 0;
    for (int i = 0; i < 2; i++) {
        MUST(cuMemcpyDtoH_v2(words, buffers[i], 4 * WORDS));
        for (int word = 0; word < WORDS; word++) wrong += words[word] != 7;
    }
    printf("{\"waited_ms\":%ld,\"wrong_words\":%d}\n", waited_ms, wrong);
    return 0;
}
