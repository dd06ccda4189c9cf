/* Holds GPU memory for others to move.
 *
 * hold CHUNKS MIB_PER_CHUNK
 *
 * Writes the chunk's number to every word of each chunk, says "ready", and at the next line of
 * input reads a word at the start, in the middle and at the end of each: {"wrong_words":N}
 */
#include "cuda.h"

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    size_t chunks = strtoull(argv[1], NULL, 10), bytes = strtoull(argv[2], NULL, 10) << 20;
    CUdeviceptr buffer;
    unsigned long wrong = 0;
    probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&buffer, chunks * bytes));
    for (size_t i = 0; i < chunks; i++)
        MUST(cuMemsetD32_v2(buffer + i * bytes, (unsigned)i + 1, bytes / 4));
    MUST(cuCtxSynchronize());
    printf("ready\n");
    fflush(stdout);
    getchar();
    for (size_t i = 0; i < chunks; i++) {
        size_t at[] = {0, bytes / 2, bytes - 4};
        for (int k = 0; k < 3; k++) {
            uint32_t word = 0;
            MUST(cuMemcpyDtoH_v2(&word, buffer + i * bytes + at[k], 4));
            wrong += word != i + 1;
        }
    }
    printf("{\"wrong_words\":%lu}\n", wrong);
    return 0;
}
