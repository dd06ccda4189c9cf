/* Copies between host and GPU, and within it: each form of a function is called at a closed gate. */
#include "probe.h"

enum { BYTES = 3 * MIB };

static void htod(void) {
    static const char *const forms[] = {"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"};
    start();
    CUdeviceptr at = alloc(BYTES);
    for (unsigned i = 0; i < 2; i++) {
        unsigned char *host = patterned(BYTES, i);
        ready(BYTES);
        MUST(CU_NAMED(forms[i], CUdeviceptr, const void *, size_t)(at, host, BYTES));
        called();
        check(at, BYTES, i);
        free(host);
    }
}

PROBES({"htod", htod})
