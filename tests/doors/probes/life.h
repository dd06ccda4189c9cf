/* What the probes of life in other people's processes share: a buffer on the GPU whose every word says
 * how often it was added to.
 */
#ifndef LIFE_H
#define LIFE_H

#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { WORDS = 1 << 20, BYTES = 4 * WORDS };

static CUcontext life_context;
static CUfunction life_axpy;
static CUdeviceptr life_sum, life_one;
static atomic_int life_added;

/* The buffer, all zero. */
static inline void life_start(void) {
    life_context = start();
    life_axpy = kernel("axpy");
    life_sum = alloc(BYTES);
    life_one = alloc(BYTES);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(life_sum, 0, WORDS));
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(life_one, 1, WORDS));
    synchronize();
    atomic_store(&life_added, 0);
}

/* Adds 1 to every word. */
static inline void life_add(void) {
    uint64_t words = WORDS;
    uint32_t factor = 1;
    void *params[] = {&life_sum, &life_one, &words, &factor};
    MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
            unsigned, CUstream, void **, void **)(life_axpy, 1, 1, 1, 256, 1, 1, 0, NULL, params,
                                                  NULL));
    atomic_fetch_add(&life_added, 1);
}

static inline void life_current(void) { MUST(CU(cuCtxSetCurrent, CUcontext)(life_context)); }

/* Checks every word. */
static inline void life_check(void) {
    uint32_t *host = malloc(BYTES);
    CHECK(host);
    to_host(host, life_sum, BYTES);
    for (size_t i = 0; i < WORDS; i++) {
        if (host[i] != (uint32_t)atomic_load(&life_added))
            fail(__FILE__, __LINE__, "a word is wrong", host[i]);
    }
    free(host);
}

/* Adds, has the memory taken away, adds and checks. */
static inline void life_round(void) {
    life_add();
    synchronize();
    ready(BYTES);
    life_add();
    synchronize();
    life_check();
}

static inline void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&time, &time) != 0) {}
}

static inline pthread_t thread(void *(*body)(void *), void *argument, size_t stack) {
    pthread_t made;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack) CHECK(pthread_attr_setstacksize(&attributes, stack) == 0);
    CHECK(pthread_create(&made, &attributes, body, argument) == 0);
    pthread_attr_destroy(&attributes);
    return made;
}

static inline void *join(pthread_t thread) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

/* Waits for a child that must end well. */
static inline void reap(pid_t child) {
    int status;
    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
    if (status != 0) fail(__FILE__, __LINE__, "the child's status", status);
}

#endif
