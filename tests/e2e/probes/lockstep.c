/* Two processes of which each waits for the other in every step.
 *
 * lockstep STEPS
 *
 * The child declares a job and ends it only when the parent has begun and ended two of its own, as the
 * workers of one model do that exchange what they have computed:
 *   {"steps":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "rtswap.h"

#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1 << 20 };

static CUfunction axpy;
static CUdeviceptr buffer, one;

static void start(void) {
    axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&buffer, 4 * WORDS));
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    rtswap_job_begin();
    MUST(cuMemsetD32_v2(buffer, 0, WORDS));
    MUST(cuMemsetD32_v2(one, 1, WORDS));
    rtswap_job_end();
}

static void say(int to) {
    if (write(to, "x", 1) != 1) exit(4);
}

static void hear(int from) {
    char byte;
    if (read(from, &byte, 1) != 1) exit(4);
}

static long wrong(long adds) {
    long wrong = 0;
    uint32_t *host = malloc(4 * WORDS);
    MUST(cuMemcpyDtoH_v2(host, buffer, 4 * WORDS));
    for (long i = 0; i < WORDS; i++) wrong += host[i] != (uint32_t)adds;
    return wrong;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    long steps = atol(argv[1]);
    int there[2], back[2];
    if (pipe(there) || pipe(back)) return 2;
    pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
        start();
        for (long i = 0; i < steps; i++) {
            rtswap_job_begin();
            probe_axpy(axpy, NULL, buffer, one, WORDS, 1);
            say(there[1]);
            hear(back[0]);
            rtswap_job_end();
        }
        return wrong(steps) != 0;
    }
    start();
    for (long i = 0; i < steps; i++) {
        hear(there[0]);
        for (int half = 0; half < 2; half++) {
            rtswap_job_begin();
            probe_axpy(axpy, NULL, buffer, one, WORDS, 1);
            rtswap_job_end();
        }
        say(back[1]);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 5;
    printf("{\"steps\":%ld,\"wrong_words\":%ld}\n", steps, wrong(2 * steps));
    return 0;
}
