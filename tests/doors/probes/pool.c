/* Memory in a stream's order, and the pools that it comes from. */
#include "probe.h"

enum { BYTES = 3 * MIB };

/* CUmemPool_attribute. */
enum { THRESHOLD = 4, RESERVED_NOW, RESERVED_MOST, USED_NOW, USED_MOST };

/* CUmemPoolProps. */
struct props {
    unsigned kind, handle_types, location, id;
    void *security;
    size_t most;
    unsigned char rest[56];
};

static CUstream s;

static CUdeviceptr async(size_t bytes, CUstream on) {
    CUdeviceptr at;
    MUST(CU(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&at, bytes, on));
    return at;
}

static void free_async(CUdeviceptr at, CUstream on) {
    MUST(CU(cuMemFreeAsync, CUdeviceptr, CUstream)(at, on));
}

static void plain(void) {
    start();
    s = stream();
    CUdeviceptr at = async(BYTES, s);
    wait_for(s);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    free_async(at, s);
    wait_for(s);
}

static void per_thread(void) {
    start();
    CUdeviceptr at;
    MUST(CU(cuMemAllocAsync_ptsz, CUdeviceptr *, size_t, CUstream)(&at, BYTES, NULL));
    synchronize();
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    MUST(CU(cuMemFreeAsync_ptsz, CUdeviceptr, CUstream)(at, NULL));
    synchronize();
}

static CUmemoryPool made(unsigned handle_types) {
    struct props of = {.kind = 1, .handle_types = handle_types, .location = 1, .id = 0};
    CUmemoryPool pool;
    MUST(CU(cuMemPoolCreate, CUmemoryPool *, const struct props *)(&pool, &of));
    return pool;
}

static CUdeviceptr from(CUmemoryPool pool, const char *form) {
    CUdeviceptr at;
    MUST(CU_NAMED(form, CUdeviceptr *, size_t, CUmemoryPool, CUstream)(&at, BYTES, pool, s));
    return at;
}

static void from_pool(void) {
    start();
    s = stream();
    CUmemoryPool pool = made(0);
    CUdeviceptr one = from(pool, "cuMemAllocFromPoolAsync");
    CUdeviceptr two = from(pool, "cuMemAllocFromPoolAsync_ptsz");
    wait_for(s);
    fill(one, BYTES, 1);
    fill(two, BYTES, 2);
    ready(2 * BYTES);
    check(one, BYTES, 1);
    check(two, BYTES, 2);
    free_async(one, s);
    free_async(two, s);
    wait_for(s);
    MUST(CU(cuMemPoolDestroy, CUmemoryPool)(pool));
}

/* The device's own pool may be exchanged. */
static void device_pool(void) {
    CUmemoryPool pool, now, first;
    start();
    s = stream();
    MUST(CU(cuDeviceGetMemPool, CUmemoryPool *, CUdevice)(&first, 0));
    pool = made(0);
    MUST(CU(cuDeviceSetMemPool, CUdevice, CUmemoryPool)(0, pool));
    MUST(CU(cuDeviceGetMemPool, CUmemoryPool *, CUdevice)(&now, 0));
    CHECK(now == pool);
    CUdeviceptr at = async(BYTES, s);
    wait_for(s);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    free_async(at, s);
    wait_for(s);
    MUST(CU(cuDeviceSetMemPool, CUdevice, CUmemoryPool)(0, first));
}

/* cuMemFree takes what cuMemAllocAsync gave. */
static void plain_free(void) {
    start();
    s = stream();
    CUdeviceptr at = async(BYTES, s), kept = async(BYTES, s);
    wait_for(s);
    fill(kept, BYTES, 1);
    ready(2 * BYTES);
    release(at);
    check(kept, BYTES, 1);
    release(kept);
}

/* What is freed in one stream's order and had again in another's is not written too early. */
static void order(void) {
    start();
    CUstream one = stream(), two = stream();
    CUdeviceptr kept = alloc(BYTES);
    for (unsigned round = 0; round < 8; round++) {
        unsigned char *host = patterned(BYTES, round);
        CUdeviceptr at = async(BYTES, one);
        MUST(CU(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)(at, host, BYTES, one));
        MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(kept, at, BYTES, one));
        free_async(at, one);
        CUdeviceptr other = async(BYTES, two);
        MUST(CU(cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)(other, 0, BYTES, two));
        free_async(other, two);
        wait_for(one);
        wait_for(two);
        free(host);
        if (round % 4 == 3) ready(BYTES);
        check(kept, BYTES, round);
    }
}

static uint64_t level(CUmemoryPool pool, int attribute) {
    uint64_t bytes = ~0ULL;
    MUST(CU(cuMemPoolGetAttribute, CUmemoryPool, int, void *)(pool, attribute, &bytes));
    return bytes;
}

static void attributes(void) {
    CUmemoryPool pool;
    uint64_t keep = ~0ULL;
    start();
    s = stream();
    MUST(CU(cuDeviceGetDefaultMemPool, CUmemoryPool *, CUdevice)(&pool, 0));
    MUST(CU(cuMemPoolSetAttribute, CUmemoryPool, int, void *)(pool, THRESHOLD, &keep));
    CHECK(level(pool, THRESHOLD) == keep);
    CUdeviceptr at = async(BYTES, s);
    wait_for(s);
    fill(at, BYTES, 1);
    ready(BYTES);
    CHECK(level(pool, USED_NOW) >= BYTES && level(pool, USED_MOST) >= BYTES);
    CHECK(level(pool, RESERVED_NOW) >= BYTES);
    check(at, BYTES, 1);
    free_async(at, s);
    wait_for(s);
    CHECK(level(pool, USED_NOW) == 0);
    MUST(CU(cuMemPoolTrimTo, CUmemoryPool, size_t)(pool, 0));
    CHECK(level(pool, RESERVED_NOW) == 0);
}

/* A pool whose memory can be exported is the driver's own. */
static void exportable(void) {
    enum { POSIX_FD = 1 };
    start();
    s = stream();
    base();
    CUmemoryPool pool = made(POSIX_FD);
    CUdeviceptr at = from(pool, "cuMemAllocFromPoolAsync");
    wait_for(s);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    free_async(at, s);
    wait_for(s);
    MUST(CU(cuMemPoolTrimTo, CUmemoryPool, size_t)(pool, 0));
    MUST(CU(cuMemPoolDestroy, CUmemoryPool)(pool));
    freed();
}

/* CUmemLocation, CUmemAccessDesc. */
struct location {
    unsigned kind, id;
};
struct access {
    struct location at;
    unsigned flags;
};
enum { DEVICE = 1, HOST = 2, HOST_NUMA = 3, READ_WRITE = 3, PINNED = 1 };

/* A pool that is set by its place is the one that later allocations come from. */
static void set_pool(void) {
    static const struct location gpu = {DEVICE, 0};
    CUmemoryPool now, first;
    start();
    s = stream();
    MUST(CU(cuMemGetDefaultMemPool, CUmemoryPool *, const struct location *, unsigned)(&first, &gpu, PINNED));
    CUmemoryPool pool = made(0);
    MUST(CU(cuMemSetMemPool, const struct location *, unsigned, CUmemoryPool)(&gpu, PINNED, pool));
    MUST(CU(cuMemGetMemPool, CUmemoryPool *, const struct location *, unsigned)(&now, &gpu, PINNED));
    CHECK(now == pool && now != first);
    CUdeviceptr at = async(BYTES, s);
    wait_for(s);
    CHECK(level(pool, USED_NOW) >= BYTES && level(first, USED_NOW) == 0);
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    free_async(at, s);
    wait_for(s);
    MUST(CU(cuMemSetMemPool, const struct location *, unsigned, CUmemoryPool)(&gpu, PINNED, first));
    at = async(BYTES, s);
    CHECK(level(pool, USED_NOW) == 0 && level(first, USED_NOW) >= BYTES);
    free_async(at, s);
    wait_for(s);
}

static void copy(CUdeviceptr to, CUdeviceptr from) {
    MUST(CU(cuMemcpy, CUdeviceptr, CUdeviceptr, size_t)(to, from, BYTES));
    synchronize();
}

/* Memory of the host, that the program and all GPUs reach. The driver does not take that of its own pool for device memory,
 * as cuMemcpyDtoH would have it. */
static void use_of_host(CUmemoryPool pool, int gpus, CUdeviceptr here) {
    for (int gpu = 0; gpu < gpus; gpu++) {
        struct access it = {{DEVICE, (unsigned)gpu}, READ_WRITE};
        MUST(CU(cuMemPoolSetAccess, CUmemoryPool, const struct access *, size_t)(pool, &it, 1));
    }
    CUdeviceptr at = from(pool, "cuMemAllocFromPoolAsync");
    wait_for(s);
    unsigned char *bytes = patterned(BYTES, 1);
    memcpy((void *)at, bytes, BYTES);
    free(bytes);
    ready(0);
    copy(here, at);
    check(here, BYTES, 1);
    fill(here, BYTES, 2);
    copy(at, here);
    check_host((unsigned char *)at, BYTES, 2);
    free_async(at, s);
    wait_for(s);
    MUST(CU(cuMemPoolTrimTo, CUmemoryPool, size_t)(pool, 0));
    freed();
}

static void host(void) {
    start();
    s = stream();
    CUdeviceptr here = alloc(BYTES);
    for (unsigned kind = HOST; kind <= HOST_NUMA; kind++) {
        struct props of = {.kind = PINNED, .location = kind, .id = 0};
        CUmemoryPool pool;
        base();
        MUST(CU(cuMemPoolCreate, CUmemoryPool *, const struct props *)(&pool, &of));
        use_of_host(pool, 2, here);
        MUST(CU(cuMemPoolDestroy, CUmemoryPool)(pool));
    }
}

/* The host's own pool. */
static void host_default(void) {
    static const struct location host = {HOST, 0};
    CUmemoryPool pool, now;
    start();
    s = stream();
    CUdeviceptr here = alloc(BYTES);
    base();
    MUST(CU(cuMemGetDefaultMemPool, CUmemoryPool *, const struct location *, unsigned)(&pool, &host, PINNED));
    MUST(CU(cuMemGetMemPool, CUmemoryPool *, const struct location *, unsigned)(&now, &host, PINNED));
    CHECK(now == pool);
    use_of_host(pool, 1, here);
}

PROBES({"async", plain}, {"per_thread", per_thread}, {"from_pool", from_pool},
       {"device_pool", device_pool}, {"plain_free", plain_free}, {"order", order},
       {"attributes", attributes}, {"exportable", exportable},
       {"set_pool", set_pool}, {"host", host}, {"host_default", host_default})
