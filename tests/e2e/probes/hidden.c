/* Holds 16 MiB that its agent does not see, until its standard input ends: a second copy of the driver
 * in a link namespace of its own, as isolated plug-ins load it, where no preloaded library reaches. Says
 * `held` when it has them. */
#define _GNU_SOURCE
#include "cuda.h"

#include <dlfcn.h>

struct allocation {
    int type, handle_types, location_type, location_id;
    void *security;
    unsigned char flags[8];
};

typedef CUresult init(unsigned flags);
typedef CUresult create(unsigned long long *handle, size_t bytes, const struct allocation *of,
                        unsigned long long flags);

static void *isolated(void *library, const char *name) {
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "no isolated %s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

int main(void) {
    /* Pinned memory on device 0. */
    const struct allocation of = {.type = 1, .location_type = 1};
    unsigned long long handle;
    CUdeviceptr address;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&address, 4 << 20));
    void *library = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    MUST(((init *)isolated(library, "cuInit"))(0));
    MUST(((create *)isolated(library, "cuMemCreate"))(&handle, 16 << 20, &of, 0));
    puts("held");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
