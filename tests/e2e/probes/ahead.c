/* Runs ahead of its GPU, or makes it spin for long.
 *
 * ahead LAUNCHES MICROSECONDS STREAMS
 *
 * Launches kernels of that length on the streams in turn, as fast as it is let. When it has
 * launched all it says so, and it ends with the last of them.
 */
#include "cuda.h"

#include <unistd.h>

#define SPIN_PTX                                                      \
    ".version 6.0\n.target sm_50\n.address_size 64\n"                 \
    ".visible .entry spin(.param .u64 ns) { ret; }\n"

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int launches = atoi(argv[1]), count = atoi(argv[3]);
    uint64_t ns = strtoull(argv[2], NULL, 10) * 1000;
    CUstream streams[64];
    CUdeviceptr memory;
    if (count < 1 || count > 64) return 2;
    CUfunction spin = probe_kernel("spin", SPIN_PTX);
    MUST(cuMemAlloc_v2(&memory, 4096));
    MUST(cuMemsetD32_v2(memory, 1, 1024));
    for (int i = 0; i < count; i++) MUST(cuStreamCreate(&streams[i], 1));
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < launches; i++) {
        void *params[] = {&ns};
        MUST(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[i % count], params, NULL));
    }
    printf("launched\n");
    fflush(stdout);
    MUST(cuCtxSynchronize());
    printf("{\"launches\":%d}\n", launches);
    return 0;
}
