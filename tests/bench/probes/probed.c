/* What a call costs, where probes may lie on the driver: to free nothing, which the probes see too.
 *
 * probed
 *
 * Says "ready" with a context, waits for a line, and prints the least CPU time of one in ns:
 *   {"call_ns":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <time.h>

enum { ROUNDS = 100, CALLS = 500 };

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
    long least = 1L << 60;
    probe_kernel("axpy", PROBE_PTX);
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 4;
    for (int round = 0; round < ROUNDS; round++) {
        long start = now();
        for (int call = 0; call < CALLS; call++) {
            MUST(cuMemFree_v2(0));
        }
        long took = (now() - start) / CALLS;
        if (took < least) least = took;
    }
    printf("{\"call_ns\":%ld}\n", least);
    return 0;
}
