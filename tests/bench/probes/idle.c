/* Uses the GPU and then does nothing until told to end.
 *
 * idle [BYTES]
 *
 * With BYTES it has a context and so much memory, without it only knows the driver. It writes one
 * byte to its standard output when it is ready, and ends at the end of its standard input, so that
 * one pipe each serves any number of them.
 */
#include <unistd.h>

#include "cuda.h"

int main(int argc, char **argv) {
    MUST(cuInit(0));
    if (argc > 1) {
        CUdeviceptr buffer;
        probe_kernel("axpy", PROBE_PTX);
        MUST(cuMemAlloc_v2(&buffer, strtoull(argv[1], NULL, 10)));
    }
    if (write(STDOUT_FILENO, ".", 1) != 1) return 4;
    char end;
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 5;
}
