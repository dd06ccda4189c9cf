/* Grows by 1 MiB each time it reads a line, and writes how many it has or `failed`. */
#include "cuda.h"

int main(void) {
    CUdeviceptr address;
    int has = 0, c;
    (void)probe_kernel("axpy", PROBE_PTX);
    printf("0 MiB\n");
    fflush(stdout);
    while ((c = getchar()) != EOF) {
        if (c != '\n') continue;
        if (cuMemAlloc_v2(&address, 1 << 20) != 0) {
            printf("failed\n");
        } else {
            printf("%d MiB\n", ++has);
        }
        fflush(stdout);
    }
    return 0;
}
