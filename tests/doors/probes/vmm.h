/* Calls of virtual memory management. */
#ifndef VMM_H
#define VMM_H

#include "probe.h"

enum { READ_WRITE = 3, POSIX_FD = 1 };

/* CUmemLocationType. */
enum { HOST = 2, HOST_NUMA, HOST_NUMA_CURRENT };

/* CUmemAllocationProp, CUmemAccessDesc. */
struct prop {
    unsigned kind, handle_types, location, id;
    void *security;
    unsigned char flags[8];
};
struct access {
    unsigned location, id, flags;
};

static const struct access both = {1, 0, READ_WRITE};

static inline CUhandle create(size_t bytes, unsigned handle_types) {
    struct prop of = {.kind = 1, .handle_types = handle_types, .location = 1, .id = 0};
    CUhandle made;
    MUST(CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&made, bytes, &of, 0));
    return made;
}

static inline CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr at;
    MUST(CU(cuMemAddressReserve, CUdeviceptr *, size_t, size_t, CUdeviceptr, uint64_t)(&at, bytes, 0,
                                                                                     0, 0));
    return at;
}

static inline void map(CUdeviceptr at, size_t bytes, size_t offset, CUhandle of) {
    MUST(CU(cuMemMap, CUdeviceptr, size_t, size_t, CUhandle, uint64_t)(at, bytes, offset, of, 0));
}

static inline void allow(CUdeviceptr at, size_t bytes) {
    MUST(CU(cuMemSetAccess, CUdeviceptr, size_t, const struct access *, size_t)(at, bytes, &both, 1));
}

static inline void unmap(CUdeviceptr at, size_t bytes) {
    MUST(CU(cuMemUnmap, CUdeviceptr, size_t)(at, bytes));
}

static inline void drop(CUhandle of) { MUST(CU(cuMemRelease, CUhandle)(of)); }

#endif
