/* A program with two kinds of jobs, and one that has no name.
 *
 * named JOBS MS
 *
 * Begins a job every MS ms, in turn "front" and "rear", where the rear takes one launch more, and after all of
 * them one without a name; each allocates a buffer beside the one that stays, and frees it. 0 JOBS: until it is ended.
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "rtswap.h"

#include <time.h>

enum { WORDS = 1 << 20 };

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long jobs = atol(argv[1]), ms = atol(argv[2]);
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    CUdeviceptr one, buffer;
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    for (long i = 0; !jobs || i < jobs; i++) {
        rtswap_job_begin_named(i % 2 ? "rear" : "front");
        MUST(cuMemAlloc_v2(&buffer, 8 * WORDS));
        for (long launch = 0; launch < 2 + i % 2; launch++)
            probe_axpy(axpy, NULL, buffer, one, WORDS, 1);
        rtswap_job_end();
        MUST(cuMemFree_v2(buffer));
        nanosleep(&pause, NULL);
    }
    rtswap_job_begin();
    probe_axpy(axpy, NULL, one, one, WORDS, 1);
    rtswap_job_end();
    return 0;
}
