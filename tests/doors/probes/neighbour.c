/* A shared library that is linked against the driver, as cudart and its like are, and looks its
 * functions up in its own name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

typedef int (*allocator)(unsigned long long *at, size_t bytes);

int cuMemAlloc_v2(unsigned long long *at, size_t bytes);
int cuMemFree_v2(unsigned long long at);

/* Missing unless somebody else loads NVML. */
__attribute__((weak)) unsigned nvmlDeviceGetMemoryInfo(void *device, void *memory);

void *neighbour_memory_info(void) { return (void *)nvmlDeviceGetMemoryInfo; }

/* What this library is bound to. */
void *neighbour_bound(void) { return (void *)cuMemFree_v2; }

int neighbour_alloc(unsigned long long *at, size_t bytes) { return cuMemAlloc_v2(at, bytes); }

int neighbour_alloc_next(unsigned long long *at, size_t bytes) {
    allocator next = (allocator)dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    return next ? next(at, bytes) : -1;
}

int neighbour_alloc_default(unsigned long long *at, size_t bytes) {
    allocator found = (allocator)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    return found ? found(at, bytes) : -1;
}

int neighbour_alloc_handle(unsigned long long *at, size_t bytes) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    allocator found = driver ? (allocator)dlsym(driver, "cuMemAlloc_v2") : NULL;
    return found ? found(at, bytes) : -1;
}
