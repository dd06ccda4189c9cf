/* Allocates, checks and frees at random from three threads, while others take its memory away.
 *
 * churn SEED SECONDS
 *
 * Every buffer is filled with a number of its own and compared word by word later:
 *   {"operations":N,"wrong_buffers":N,"out_of_memory":N,"held_bytes":N}
 * held_bytes is what the program still holds when all is freed: its context.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 3, BUFFERS = 6, MOST_WORDS = 1 << 20, OUT_OF_MEMORY = 2 };

CUresult cuCtxGetCurrent(CUcontext *current);

static CUcontext context;
static unsigned seed;
static atomic_int stop;
static atomic_long operations, wrong, refused;

struct buffer {
    CUdeviceptr at;
    size_t words;
    unsigned value;
};

static void make(struct buffer *buffer, unsigned *random) {
    buffer->words = 1 + (unsigned)rand_r(random) % MOST_WORDS;
    buffer->value = (unsigned)rand_r(random);
    CUresult result = cuMemAlloc_v2(&buffer->at, 4 * buffer->words);
    if (result == OUT_OF_MEMORY) {
        buffer->at = 0;
        atomic_fetch_add(&refused, 1);
        usleep(1000);
        return;
    }
    MUST(result);
    MUST(cuMemsetD32_v2(buffer->at, buffer->value, buffer->words));
}

static void check(const struct buffer *buffer, uint32_t *host) {
    MUST(cuMemcpyDtoH_v2(host, buffer->at, 4 * buffer->words));
    for (size_t i = 0; i < buffer->words; i++) {
        if (host[i] != buffer->value) {
            atomic_fetch_add(&wrong, 1);
            return;
        }
    }
}

static void drop(struct buffer *buffer) {
    MUST(cuMemFree_v2(buffer->at));
    buffer->at = 0;
}

static void *churn(void *number) {
    unsigned random = seed * 31 + (unsigned)(size_t)number;
    struct buffer buffers[BUFFERS] = {{0}};
    uint32_t *host = malloc(4 * (size_t)MOST_WORDS);
    MUST(cuCtxSetCurrent(context));
    while (!atomic_load(&stop)) {
        struct buffer *buffer = &buffers[rand_r(&random) % BUFFERS];
        if (!buffer->at) {
            make(buffer, &random);
        } else if (rand_r(&random) % 2) {
            check(buffer, host);
        } else {
            drop(buffer);
        }
        atomic_fetch_add(&operations, 1);
        if (rand_r(&random) % 8 == 0) usleep((unsigned)rand_r(&random) % 20000);
    }
    for (int i = 0; i < BUFFERS; i++) {
        if (buffers[i].at) {
            check(&buffers[i], host);
            drop(&buffers[i]);
        }
    }
    free(host);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    pthread_t threads[THREADS];
    size_t free_bytes, total_bytes;
    seed = (unsigned)atoi(argv[1]);
    probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, churn, (void *)i);
    sleep((unsigned)atoi(argv[2]));
    atomic_store(&stop, 1);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MUST(cuMemGetInfo_v2(&free_bytes, &total_bytes));
    printf("{\"operations\":%ld,\"wrong_buffers\":%ld,\"out_of_memory\":%ld,\"held_bytes\":%zu}\n",
           atomic_load(&operations), atomic_load(&wrong), atomic_load(&refused),
           total_bytes - free_bytes);
    return 0;
}
