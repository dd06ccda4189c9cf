/* One program on two GPUs, a thread on each. On each line of standard input that names a GPU, its
 * thread sets memory there; "both" copies from the first GPU's memory into the second's, on a
 * stream of the first. Each says its name when the call has returned.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <unistd.h>

enum { WORDS = 1 << 18 };

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

static CUcontext contexts[2];
static CUdeviceptr buffers[2];
static int pipes[2][2];

static void *setter(void *argument) {
    size_t gpu = (size_t)argument;
    char byte;
    MUST(cuCtxSetCurrent(contexts[gpu]));
    while (read(pipes[gpu][0], &byte, 1) == 1) {
        if (byte == 'b') {
            /* A simulated GPU may not know such a copy; what counts is the gate before it. */
            (void)cuMemcpyAsync(buffers[1], buffers[0], 4 * WORDS, NULL);
            printf("both returned\n");
        } else {
            MUST(cuMemsetD32_v2(buffers[gpu], 5, WORDS));
            printf("%zu returned\n", gpu);
        }
        fflush(stdout);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    char line[16];
    MUST(cuInit(0));
    for (size_t gpu = 0; gpu < 2; gpu++) {
        CUdevice device;
        MUST(cuDeviceGet(&device, (int)gpu));
        MUST(cuDevicePrimaryCtxRetain(&contexts[gpu], device));
        MUST(cuCtxSetCurrent(contexts[gpu]));
        MUST(cuMemAlloc_v2(&buffers[gpu], 4 * WORDS));
        if (pipe(pipes[gpu]) != 0) return 2;
        pthread_create(&threads[gpu], NULL, setter, (void *)gpu);
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int gpu = line[0] == '1';
        if (write(pipes[gpu][1], line, 1) != 1) return 2;
    }
    for (int gpu = 0; gpu < 2; gpu++) {
        close(pipes[gpu][1]);
        pthread_join(threads[gpu], NULL);
    }
    return 0;
}
