/* A host function that waits for another thread, which must make GPU calls first.
 *
 * host_wait
 *
 * On `w` a host function is launched that waits until the other thread has set memory on another
 * stream, which it does on `s`. What it says at its end: how long that call took, and words that
 * are wrong then.
 *   {"waited_ms":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1 << 18 };

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t words, CUstream stream);
CUresult cuCtxGetCurrent(CUcontext *current);

static atomic_int may_set, is_set;
static CUcontext context;
static CUdeviceptr buffer;
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

static void host(void *unused) {
    (void)unused;
    say("waiting");
    while (!atomic_load(&is_set)) usleep(100);
}

static void *setter(void *unused) {
    CUstream stream;
    (void)unused;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, 1));
    while (!atomic_load(&may_set)) usleep(100);
    long start = now_ms();
    MUST(cuMemsetD32Async(buffer, 9, WORDS, stream));
    waited_ms = now_ms() - start;
    MUST(cuStreamSynchronize(stream));
    atomic_store(&is_set, 1);
    return NULL;
}

int main(void) {
    CUstream stream;
    pthread_t thread;
    char byte;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    MUST(cuMemAlloc_v2(&buffer, 4 * WORDS));
    MUST(cuMemsetD32_v2(buffer, 1, WORDS));
    MUST(cuStreamCreate(&stream, 1));
    pthread_create(&thread, NULL, setter, NULL);
    say("ready");
    if (read(0, &byte, 1) != 1) return 2;
    MUST(cuLaunchHostFunc(stream, host, NULL));
    if (read(0, &byte, 1) != 1) return 2;
    atomic_store(&may_set, 1);
    pthread_join(thread, NULL);
    MUST(cuStreamSynchronize(stream));
    say("done");
    if (read(0, &byte, 1) != 1) return 2;
    uint32_t *words = malloc(4 * WORDS);
    MUST(cuMemcpyDtoH_v2(words, buffer, 4 * WORDS));
    int wrong = 0;
    for (int word = 0; word < WORDS; word++) wrong += words[word] != 9;
    printf("{\"waited_ms\":%ld,\"wrong_words\":%d}\n", waited_ms, wrong);
    return 0;
}
