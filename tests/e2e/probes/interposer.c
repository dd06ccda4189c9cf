/* Another preloaded library: its own malloc, dlopen and cuMemAlloc before the real ones, each found
 * by RTLD_NEXT at the first call, as such libraries do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static unsigned allocations;

unsigned interposed_allocations(void) { return allocations; }

void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return next(bytes);
}

void *dlopen(const char *name, int flags) {
    static void *(*next)(const char *, int);
    if (!next) next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(name, flags);
}

int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
    static int (*next)(unsigned long long *, size_t);
    if (!next) next = (int (*)(unsigned long long *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    allocations++;
    /* Itself again: it would never return. */
    return next == cuMemAlloc_v2 ? -1 : next(address, bytes);
}
