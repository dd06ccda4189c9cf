/* Asks what a pointer is, each time a line comes on standard input, until its end:
 *   {"type":N,"pointer":B,"ordinal":N,"size":N,"batch_type":N,"base":B}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <unistd.h>

enum { BYTES = 3 << 20 };

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at);
CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr at);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);

int main(void) {
    CUdeviceptr buffer;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&buffer, BYTES));
    printf("ready\n");
    fflush(stdout);
    char line;
    while (read(0, &line, 1) == 1) {
        unsigned type = 0, batch_type = 0;
        int ordinal = -1, attributes[] = {2};
        void *data[] = {&batch_type};
        CUdeviceptr pointer = 0, base = 0;
        size_t size = 0, bytes = 0;
        MUST(cuPointerGetAttribute(&type, 2, buffer + 512));
        MUST(cuPointerGetAttribute(&pointer, 3, buffer + 512));
        MUST(cuPointerGetAttribute(&ordinal, 9, buffer + 512));
        MUST(cuPointerGetAttribute(&size, 12, buffer + 512));
        MUST(cuPointerGetAttributes(1, attributes, data, buffer + 512));
        MUST(cuMemGetAddressRange_v2(&base, &bytes, buffer + 512));
        printf("{\"type\":%u,\"pointer\":%d,\"ordinal\":%d,\"size\":%zu,\"batch_type\":%u,\"base\":%d}\n",
               type, pointer == buffer + 512, ordinal, size, batch_type,
               base == buffer && bytes == BYTES);
        fflush(stdout);
    }
    return 0;
}
