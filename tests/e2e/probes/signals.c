/* A program with signals of its own, which also computes on the GPU while rtswap swaps it.
 *
 * signals handler|sigwait|signalfd|ignored|flips ROUNDS
 *
 * Each round sends one SIGUSR1 to the process, waits (at most a second) until the program itself
 * has received it, and adds 1 to every word of a buffer on the GPU. At the end it says how many
 * were sent and received and whether the buffer holds what it must. `flips` sends none: a thread
 * ignores and handles SIGUSR1 in turn, which discards whatever of that number is pending.
 *   {"sent":N,"received":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1 << 20 };

static atomic_long received;

static void on_signal(int number) {
    (void)number;
    atomic_fetch_add(&received, 1);
}

static void *sigwait_thread(void *set) {
    for (;;) {
        int number;
        if (sigwait(set, &number) == 0) atomic_fetch_add(&received, 1);
    }
    return NULL;
}

static void *signalfd_thread(void *set) {
    int fd = signalfd(-1, set, SFD_CLOEXEC);
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info) atomic_fetch_add(&received, 1);
    return NULL;
}

static void *flip_thread(void *unused) {
    struct timespec nap = {0, 50 * 1000};
    struct sigaction handled = {.sa_handler = on_signal}, ignored = {.sa_handler = SIG_IGN};
    (void)unused;
    for (;;) {
        sigaction(SIGUSR1, &ignored, NULL);
        nanosleep(&nap, NULL);
        sigaction(SIGUSR1, &handled, NULL);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

static int received_within_a_second(long wanted) {
    struct timespec nap = {0, 50 * 1000};
    for (int i = 0; i < 20000; i++) {
        if (atomic_load(&received) >= wanted) return 1;
        nanosleep(&nap, NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *mode = argv[1];
    long rounds = atol(argv[2]), sent = 0, wrong = 0;
    sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);

    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    CUdeviceptr y, one;
    MUST(cuMemAlloc_v2(&y, 4 * WORDS));
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    MUST(cuMemsetD32_v2(y, 0, WORDS));
    MUST(cuMemsetD32_v2(one, 1, WORDS));
    MUST(cuCtxSynchronize());

    int expects = 1;
    if (strcmp(mode, "handler") == 0) {
        struct sigaction action = {.sa_handler = on_signal};
        sigaction(SIGUSR1, &action, NULL);
    } else if (strcmp(mode, "ignored") == 0) {
        signal(SIGUSR1, SIG_IGN);
        expects = 0;
    } else if (strcmp(mode, "flips") == 0) {
        pthread_create(&thread, NULL, flip_thread, NULL);
        expects = -1;
    } else {
        /* Blocked in the main thread and in those made after it, as sigwait(3) asks. */
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        void *(*body)(void *) = strcmp(mode, "sigwait") == 0 ? sigwait_thread : signalfd_thread;
        pthread_create(&thread, NULL, body, &set);
    }

    for (long round = 0; round < rounds; round++) {
        if (expects >= 0) {
            kill(getpid(), SIGUSR1);
            sent++;
        }
        probe_axpy(axpy, NULL, y, one, WORDS, 1);
        MUST(cuCtxSynchronize());
        if (expects > 0 && !received_within_a_second(sent)) break;
    }

    uint32_t *host = malloc(4 * WORDS);
    MUST(cuMemcpyDtoH_v2(host, y, 4 * WORDS));
    for (long i = 0; i < WORDS; i++) wrong += host[i] != (uint32_t)rounds;
    printf("{\"sent\":%ld,\"received\":%ld,\"wrong_words\":%ld}\n", sent, atomic_load(&received), wrong);
    fflush(stdout);
    _exit(0);
}
