/* Allocates once by the driver it is linked against, and says what an interposer saw of it:
 *   {"interposed":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>

int main(void) {
    CUdeviceptr address;
    unsigned (*interposed)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "interposed_allocations");
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&address, 1 << 20));
    MUST(cuMemFree_v2(address));
    printf("{\"interposed\":%u}\n", interposed ? interposed() : 0);
    return 0;
}
