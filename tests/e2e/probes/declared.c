/* A program that declares its jobs.
 *
 * declared JOBS
 *
 * Adds 1 to every word of a buffer in each job, with a nested declaration, from two threads in
 * turn, and pauses longer inside a job than an undeclared one may:
 *   {"jobs":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "rtswap.h"

#include <pthread.h>
#include <time.h>

enum { WORDS = 1 << 20 };

static CUfunction axpy;
static CUcontext context;
static CUdeviceptr buffer, one;

CUresult cuCtxGetCurrent(CUcontext *current);

static void *job(void *unused) {
    struct timespec nap = {0, 5 * 1000 * 1000};
    (void)unused;
    MUST(cuCtxSetCurrent(context));
    rtswap_job_begin();
    rtswap_job_begin();
    probe_axpy(axpy, NULL, buffer, one, WORDS, 1);
    rtswap_job_end();
    nanosleep(&nap, NULL);
    probe_axpy(axpy, NULL, buffer, one, WORDS, 1);
    rtswap_job_end();
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    long jobs = atol(argv[1]), wrong = 0;
    axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    MUST(cuMemAlloc_v2(&buffer, 4 * WORDS));
    MUST(cuMemAlloc_v2(&one, 4 * WORDS));
    rtswap_job_begin();
    MUST(cuMemsetD32_v2(buffer, 0, WORDS));
    MUST(cuMemsetD32_v2(one, 1, WORDS));
    rtswap_job_end();
    for (long i = 1; i < jobs; i++) {
        pthread_t thread;
        if (i % 2) {
            job(NULL);
        } else {
            pthread_create(&thread, NULL, job, NULL);
            pthread_join(thread, NULL);
        }
    }
    printf("ready\n");
    fflush(stdout);
    getchar();
    uint32_t *host = malloc(4 * WORDS);
    MUST(cuMemcpyDtoH_v2(host, buffer, 4 * WORDS));
    for (long i = 0; i < WORDS; i++) wrong += host[i] != (uint32_t)(2 * (jobs - 1));
    printf("{\"jobs\":%ld,\"wrong_words\":%ld}\n", jobs, wrong);
    return 0;
}
