/* Holds 16 MiB of physical memory that it maps nowhere, until its standard input ends. Says `held`
 * when it has them. */
#include "cuda.h"

struct allocation {
    int type, handle_types, location_type, location_id;
    void *security;
    unsigned char flags[8];
};

CUresult cuMemCreate(unsigned long long *handle, size_t bytes, const struct allocation *of,
                     unsigned long long flags);

int main(void) {
    /* Pinned memory on device 0. */
    const struct allocation of = {.type = 1, .location_type = 1};
    unsigned long long handle;
    CUdeviceptr address;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&address, 4 << 20));
    MUST(cuMemCreate(&handle, 16 << 20, &of, 0));
    puts("held");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
