/* Threads of every kind that a program may have. */
#include "life.h"

#include <limits.h>

static pthread_barrier_t barrier;

static void *early_body(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier); /* the agent has started */
    life_current();
    life_add();
    synchronize();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* the memory was taken away */
    life_add();
    synchronize();
    return NULL;
}

/* Threads that were there before the agent. */
static void early(void) {
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) threads[i] = thread(early_body, NULL, 0);
    nap(1000);
    life_start();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    ready(BYTES);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREADS; i++) join(threads[i]);
    life_check();
}

static void *short_body(void *unused) {
    (void)unused;
    life_current();
    life_add();
    return NULL;
}

/* Two thousand threads that live for one launch. */
static void thousands(void) {
    enum { ROUNDS = 125, AT_ONCE = 16 };
    life_start();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) threads[i] = thread(short_body, NULL, 0);
        for (int i = 0; i < AT_ONCE; i++) join(threads[i]);
        if (round == ROUNDS / 2) {
            synchronize();
            ready(BYTES);
        }
    }
    synchronize();
    life_check();
}

static pthread_key_t key;

/* glibc runs it up to four times, the last ones after all thread-locals are gone. */
static void late_work(void *rounds) {
    life_add();
    MUST(CU(cuCtxSynchronize, void)());
    if ((size_t)rounds > 1) pthread_setspecific(key, (void *)((size_t)rounds - 1));
}

static void *late_body(void *unused) {
    (void)unused;
    life_current();
    pthread_setspecific(key, (void *)(size_t)PTHREAD_DESTRUCTOR_ITERATIONS);
    return NULL;
}

/* GPU work of threads whose thread-locals are gone. */
static void without_locals(void) {
    life_start();
    CHECK(pthread_key_create(&key, late_work) == 0);
    for (int i = 0; i < 20; i++) {
        pthread_t one = thread(late_body, NULL, 0);
        join(one);
        if (i == 10) ready(BYTES);
    }
    life_check();
}

static void *tiny_body(void *unused) {
    (void)unused;
    life_current();
    life_add();
    synchronize();
    CUdeviceptr more = alloc(BYTES);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(more, 1, WORDS));
    synchronize();
    ready(2 * BYTES);
    life_add();
    synchronize();
    release(more);
    return NULL;
}

/* A thread with the smallest stack that there is. */
static void tiny_stack(void) {
    life_start();
    join(thread(tiny_body, NULL, PTHREAD_STACK_MIN));
    life_check();
}

static atomic_int handled, stop;

static void on_signal(int number) {
    char used[4096];
    memset(used, number, sizeof used);
    atomic_fetch_add(&handled, used[1] == (char)number);
}

static void *alternate_body(void *unused) {
    static char stack[64 << 10];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    (void)unused;
    CHECK(sigaltstack(&alternate, NULL) == 0);
    life_current();
    while (!atomic_load(&stop)) {
        life_add();
        synchronize();
    }
    return NULL;
}

static pthread_t disturbed;

static void *disturb_body(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        pthread_kill(disturbed, SIGUSR1);
        nap(50);
    }
    return NULL;
}

/* A thread with a signal stack of its own that is signalled all the time, also at the gate. */
static void signal_stack(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    life_start();
    disturbed = thread(alternate_body, NULL, PTHREAD_STACK_MIN);
    pthread_t other = thread(disturb_body, NULL, 0);
    while (atomic_load(&handled) < 100) {
        life_current();
        nap(5000);
    }
    atomic_store(&stop, 1);
    join(disturbed);
    join(other);
    life_round();
}

static void *leaver_body(void *unused) {
    (void)unused;
    life_current();
    life_add();
    CUdeviceptr at = alloc(4096);
    release(at);
    pthread_exit((void *)5);
}

/* Threads that leave by pthread_exit. */
static void leavers(void) {
    life_start();
    for (int i = 0; i < 100; i++) CHECK(join(thread(leaver_body, NULL, 0)) == (void *)5);
    synchronize();
    life_round();
}

PROBES({"early", early}, {"thousands", thousands}, {"without_locals", without_locals},
       {"tiny_stack", tiny_stack}, {"signal_stack", signal_stack}, {"leavers", leavers})
