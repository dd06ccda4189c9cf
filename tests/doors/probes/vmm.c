/* The program's own virtual memory management, as JAX, NCCL and expandable segments do it. */
#include "probe.h"

#include "vmm.h"

enum { BYTES = 6 * MIB };

static void plain(void) {
    start();
    CUdeviceptr at = reserve(BYTES);
    CUhandle of = create(BYTES, 0);
    map(at, BYTES, 0, of);
    allow(at, BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    unmap(at, BYTES);
    drop(of);
    MUST(CU(cuMemAddressFree, CUdeviceptr, size_t)(at, BYTES));
}

/* Segments that grow, their handles released as soon as they are mapped. */
static void segments(void) {
    start();
    CUdeviceptr at = reserve(16 * BYTES);
    for (unsigned i = 0; i < 4; i++) {
        CUhandle of = create(2 * MIB, 0);
        map(at + i * 2 * MIB, 2 * MIB, 0, of);
        allow(at + i * 2 * MIB, 2 * MIB);
        drop(of);
        fill(at + i * 2 * MIB, 2 * MIB, i);
        ready((i + 1) * 2 * MIB);
    }
    for (unsigned i = 0; i < 4; i++) check(at + i * 2 * MIB, 2 * MIB, i);
    unmap(at, 8 * MIB);
    MUST(CU(cuMemAddressFree, CUdeviceptr, size_t)(at, 16 * BYTES));
}

/* Mapped somewhere else while it is out: the bytes go with the handle. */
static void moved(void) {
    start();
    CUdeviceptr one = reserve(BYTES), two = reserve(BYTES);
    CUhandle of = create(BYTES, 0);
    map(one, BYTES, 0, of);
    allow(one, BYTES);
    fill(one, BYTES, 1);
    ready(BYTES);
    unmap(one, BYTES);
    map(two, BYTES, 0, of);
    allow(two, BYTES);
    check(two, BYTES, 1);
    ready(BYTES);
    check(two, BYTES, 1);
    unmap(two, BYTES);
    drop(of);
}

/* The same bytes at two addresses. */
static void twice(void) {
    start();
    CUdeviceptr one = reserve(BYTES), two = reserve(BYTES);
    CUhandle of = create(BYTES, 0);
    map(one, BYTES, 0, of);
    allow(one, BYTES);
    map(two, BYTES, 0, of);
    allow(two, BYTES);
    fill(one, BYTES, 1);
    check(two, BYTES, 1);
    fill(two, BYTES, 2);
    check(one, BYTES, 2);
    ready(BYTES);
    check(one, BYTES, 2);
    fill(one, BYTES, 3);
    ready(BYTES);
    check(two, BYTES, 3);
    unmap(one, BYTES);
    unmap(two, BYTES);
    drop(of);
}

static void retained(void) {
    CUhandle again;
    struct prop of;
    start();
    CUdeviceptr at = reserve(BYTES);
    CUhandle made = create(BYTES, 0);
    map(at, BYTES, 0, made);
    allow(at, BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    MUST(CU(cuMemRetainAllocationHandle, CUhandle *, void *)(&again, (void *)(at + 100)));
    CHECK(again == made);
    MUST(CU(cuMemGetAllocationPropertiesFromHandle, struct prop *, CUhandle)(&of, again));
    CHECK(of.kind == 1 && of.location == 1 && of.id == 0);
    drop(again);
    check(at, BYTES, 1);
    unmap(at, BYTES);
    drop(made);
}

/* Another process may map what is exported, so that it cannot leave. */
static void exported(void) {
    int fd;
    CUhandle again;
    start();
    base();
    CUdeviceptr at = reserve(BYTES), other = reserve(BYTES);
    CUhandle of = create(BYTES, POSIX_FD);
    map(at, BYTES, 0, of);
    allow(at, BYTES);
    fill(at, BYTES, 1);
    MUST(CU(cuMemExportToShareableHandle, void *, CUhandle, unsigned, uint64_t)(&fd, of, POSIX_FD, 0));
    ready(BYTES);
    MUST(CU(cuMemImportFromShareableHandle, CUhandle *, void *, unsigned)(
        &again, (void *)(intptr_t)fd, POSIX_FD));
    map(other, BYTES, 0, again);
    allow(other, BYTES);
    check(other, BYTES, 1);
    unmap(other, BYTES);
    unmap(at, BYTES);
    drop(again);
    drop(of);
    close(fd);
    freed();
}

static void access_flags(void) {
    unsigned long long flags = 9;
    struct access where = {1, 0, 0};
    start();
    CUdeviceptr at = reserve(BYTES);
    CUhandle of = create(BYTES, 0);
    map(at, BYTES, 0, of);
    allow(at, BYTES);
    fill(at, BYTES, 1);
    ready(BYTES);
    MUST(CU(cuMemGetAccess, unsigned long long *, const struct access *, CUdeviceptr)(&flags, &where, at));
    CHECK(flags == READ_WRITE);
    answered();
    check(at, BYTES, 1);
    unmap(at, BYTES);
    drop(of);
}

/* Memory that is mapped nowhere is held all the same. */
static void unmapped(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    CUhandle of = create(BYTES, 0);
    ready(BYTES);
    check(at, BYTES, 1);
    CUdeviceptr late = reserve(BYTES);
    map(late, BYTES, 0, of);
    allow(late, BYTES);
    fill(late, BYTES, 2);
    ready(2 * BYTES);
    check(late, BYTES, 2);
    check(at, BYTES, 1);
    unmap(late, BYTES);
    drop(of);
    release(at);
}

/* Memory of the host, of which the GPU holds nothing: the program and the GPU both reach it. */
static void host(void) {
    start();
    for (unsigned kind = HOST; kind <= HOST_NUMA; kind++) {
        struct prop of = {.kind = 1, .location = kind, .id = 0};
        const struct access all[] = {{1, 0, READ_WRITE}, {kind, 0, READ_WRITE}};
        unsigned long long flags = 9;
        CUhandle made;
        base();
        CUdeviceptr at = reserve(BYTES);
        MUST(CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&made, BYTES, &of, 0));
        map(at, BYTES, 0, made);
        MUST(CU(cuMemSetAccess, CUdeviceptr, size_t, const struct access *, size_t)(at, BYTES, all, 2));
        MUST(CU(cuMemGetAccess, unsigned long long *, const struct access *, CUdeviceptr)(&flags, &all[1], at));
        CHECK(flags == READ_WRITE);
        unsigned char *bytes = patterned(BYTES, kind);
        memcpy((void *)at, bytes, BYTES);
        free(bytes);
        ready(0);
        check(at, BYTES, kind);
        fill(at, BYTES, kind + 10);
        check_host((unsigned char *)at, BYTES, kind + 10);
        MUST(CU(cuMemGetAllocationPropertiesFromHandle, struct prop *, CUhandle)(&of, made));
        /* Memory of the host lies on one of its nodes, and the driver may name that place instead. */
        if (of.location != kind && (kind != HOST || of.location < HOST || of.location > HOST_NUMA_CURRENT)) {
            fail(__FILE__, __LINE__, "another place", of.location);
        }
        unmap(at, BYTES);
        drop(made);
        MUST(CU(cuMemAddressFree, CUdeviceptr, size_t)(at, BYTES));
        freed();
    }
    struct prop nowhere = {.kind = 1, .location = HOST_NUMA_CURRENT, .id = 0};
    CUhandle none;
    CHECK(CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&none, BYTES, &nowhere, 0) == INVALID_VALUE);
}

/* What is wrong is answered as by the driver alone. A handle that it never gave, or that is released already, it does not
 * survive: that only the agent can be asked. */
static void wrong(void) {
    start();
    CUdeviceptr held = alloc(2 * MIB), at = reserve(BYTES);
    CUhandle of = create(2 * MIB, 0), none;
    struct prop odd = {.kind = 1, .location = 1, .id = 0};
    ready(2 * MIB);
    say("offset: %d", CU(cuMemMap, CUdeviceptr, size_t, size_t, CUhandle, uint64_t)(at, MIB, MIB, of, 0));
    say("unmapped: %d", CU(cuMemUnmap, CUdeviceptr, size_t)(at, 2 * MIB));
    say("no access: %d", CU(cuMemSetAccess, CUdeviceptr, size_t, const struct access *, size_t)(
                             at, 2 * MIB, &both, 1));
    say("odd size: %d", CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(
                            &none, 1000, &odd, 0));
    map(at, 2 * MIB, 0, of);
    say("there already: %d", CU(cuMemMap, CUdeviceptr, size_t, size_t, CUhandle, uint64_t)(
                                 at, 2 * MIB, 0, of, 0));
    say("still mapped: %d", CU(cuMemAddressFree, CUdeviceptr, size_t)(at, BYTES));
    unmap(at, 2 * MIB);
    drop(of);
    release(held);
}

PROBES({"plain", plain}, {"segments", segments}, {"moved", moved}, {"twice", twice},
       {"retained", retained}, {"exported", exported}, {"access", access_flags},
       {"unmapped", unmapped}, {"host", host}, {"wrong", wrong})
