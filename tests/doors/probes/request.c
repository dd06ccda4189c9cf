/* Physical memory as frameworks ask for it, each with the order of its calls: which kinds of handle,
 * which flags, what is mapped and released when. Read in their sources: PyTorch 2.8 to 2.11
 * (CUDACachingAllocator.cpp, CUDASymmetricMemory.cu), vLLM 0.16 (cumem_allocator.cpp),
 * torch_memory_saver (core.cpp), NCCL 2.30 (allocator.cc, alloc.h, p2p.cc), XLA
 * (cuda_device_allocator.cc), ggml (ggml-cuda.cu), NVSHMEM (mem_heap.cpp), UCX (cuda_copy_md.c).
 */
#include "probe.h"

#include "vmm.h"

enum {
    NONE = 0,
    FABRIC = 8,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    RDMA_WITH_VMM = 110,
    HAS_FABRIC = 128,
    MINIMUM = 0,
    RECOMMENDED = 1,
    SEGMENT = 2 * MIB,
};

static int attribute(int number) {
    int value;
    MUST(CU(cuDeviceGetAttribute, int *, int, CUdevice)(&value, number, 0));
    return value;
}

static struct prop request(unsigned handle_types, int rdma) {
    return (struct prop){.kind = 1, .handle_types = handle_types, .location = 1, .flags = {0, rdma}};
}

static size_t granularity(struct prop of, unsigned option) {
    size_t bytes;
    MUST(CU(cuMemGetAllocationGranularity, size_t *, const struct prop *, unsigned)(&bytes, &of,
                                                                                    option));
    return bytes;
}

/* Tries kinds of handle in turn, as long as the driver says that it lacks one; the last is 0xff. */
static CUhandle ask(size_t bytes, const unsigned char *kinds, int rdma, unsigned *kind) {
    CUhandle made;
    CUresult result = NOT_SUPPORTED;
    for (; *kinds != 0xff; kinds++) {
        struct prop of = request(*kinds, rdma);
        *kind = *kinds;
        result = CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&made, bytes, &of, 0);
        if (result != NOT_PERMITTED && result != NOT_SUPPORTED) break;
    }
    MUST(result);
    return made;
}

static const unsigned char ALONE[] = {FABRIC, POSIX_FD, 0xff}, BOTH[] = {FABRIC | POSIX_FD, POSIX_FD, NONE, 0xff};

static int export(CUhandle of, unsigned kind) {
    int fd = -1;
    MUST(CU(cuMemExportToShareableHandle, void *, CUhandle, unsigned, uint64_t)(&fd, of, kind, 0));
    CHECK(fd >= 0);
    return fd;
}

static CUhandle import(int fd) {
    CUhandle made;
    MUST(CU(cuMemImportFromShareableHandle, CUhandle *, void *, unsigned)(&made, (void *)(intptr_t)fd,
                                                                          POSIX_FD));
    return made;
}

static CUhandle retain(CUdeviceptr at) {
    CUhandle made;
    MUST(CU(cuMemRetainAllocationHandle, CUhandle *, void *)(&made, (void *)at));
    return made;
}

static void give_back(CUdeviceptr at, size_t bytes) {
    MUST(CU(cuMemAddressFree, CUdeviceptr, size_t)(at, bytes));
}

/* Another mapping of what a descriptor stands for has the bytes, and a write there is seen here. */
static void seen_through(int fd, CUdeviceptr at, size_t bytes, unsigned seed) {
    CUdeviceptr other = reserve(bytes);
    CUhandle theirs = import(fd);
    close(fd);
    map(other, bytes, 0, theirs);
    allow(other, bytes);
    check(other, bytes, seed);
    fill(other, bytes, seed + 1);
    synchronize();
    check(at, bytes, seed + 1);
    unmap(other, bytes);
    drop(theirs);
    give_back(other, bytes);
}

/* PyTorch's expandable segments: one large reservation, segments of 2 or 20 MiB that are created and
 * mapped one by one, their rights given to the whole run; handles are kept. */
static void torch(void) {
    enum { COUNT = 5 };
    CUhandle handles[COUNT];
    unsigned kind;
    start();
    CUdeviceptr at = reserve(32 * SEGMENT);
    for (unsigned i = 0; i < COUNT; i++) handles[i] = ask(SEGMENT, ALONE, attribute(RDMA_WITH_VMM), &kind);
    CHECK(kind != NONE);
    for (unsigned i = 0; i < COUNT; i++) map(at + i * SEGMENT, SEGMENT, 0, handles[i]);
    allow(at, COUNT * SEGMENT);
    for (unsigned i = 0; i < COUNT; i++) fill(at + i * SEGMENT, SEGMENT, i);
    ready(COUNT * SEGMENT);
    for (unsigned i = 0; i < COUNT; i++) check(at + i * SEGMENT, SEGMENT, i);
    /* A segment in the middle goes, and its addresses are filled again. */
    synchronize();
    unmap(at + SEGMENT, SEGMENT);
    drop(handles[1]);
    handles[1] = ask(SEGMENT, ALONE, attribute(RDMA_WITH_VMM), &kind);
    map(at + SEGMENT, SEGMENT, 0, handles[1]);
    allow(at + SEGMENT, SEGMENT);
    fill(at + SEGMENT, SEGMENT, 9);
    ready(COUNT * SEGMENT);
    check(at + SEGMENT, SEGMENT, 9);
    check(at + 2 * SEGMENT, SEGMENT, 2);
    synchronize();
    unmap(at, COUNT * SEGMENT);
    for (unsigned i = 0; i < COUNT; i++) drop(handles[i]);
    give_back(at, 32 * SEGMENT);
}

/* Tensors in them given to another process: a segment is exported once, its descriptor kept and closed
 * before the handle is released. */
static void torch_shared(void) {
    CUhandle handles[2];
    unsigned kind;
    start();
    base();
    CUdeviceptr at = reserve(8 * SEGMENT);
    for (unsigned i = 0; i < 2; i++) {
        handles[i] = ask(SEGMENT, ALONE, attribute(RDMA_WITH_VMM), &kind);
        map(at + i * SEGMENT, SEGMENT, 0, handles[i]);
    }
    allow(at, 2 * SEGMENT);
    fill(at, SEGMENT, 1);
    fill(at + SEGMENT, SEGMENT, 5);
    ready(2 * SEGMENT);
    int fd = export(handles[0], kind);
    shares(SEGMENT);
    seen_through(dup(fd), at, SEGMENT, 1);
    check(at + SEGMENT, SEGMENT, 5);
    ready(SEGMENT);
    check(at, SEGMENT, 2);
    check(at + SEGMENT, SEGMENT, 5);
    synchronize();
    unmap(at, SEGMENT);
    close(fd);
    drop(handles[0]);
    unmap(at + SEGMENT, SEGMENT);
    drop(handles[1]);
    give_back(at, 8 * SEGMENT);
}

/* Is there a fabric? One granule, exported and imported in this process, never mapped. */
static void torch_fabric(void) {
    struct prop of = request(FABRIC, 0);
    unsigned char blob[64];
    CUhandle made, again;
    start();
    size_t bytes = granularity(request(NONE, 0), RECOMMENDED);
    CUdeviceptr held = alloc(2 * MIB);
    ready(2 * MIB);
    CUresult result = CU(cuMemCreate, CUhandle *, size_t, const struct prop *, uint64_t)(&made, bytes, &of, 0);
    if (result == SUCCESS) {
        result = CU(cuMemExportToShareableHandle, void *, CUhandle, unsigned, uint64_t)(blob, made, FABRIC, 0);
        if (result == SUCCESS) {
            result = CU(cuMemImportFromShareableHandle, CUhandle *, void *, unsigned)(&again, blob, FABRIC);
            if (result == SUCCESS) drop(again);
        }
        drop(made);
    }
    say("fabric: %d, attribute %d", result, attribute(HAS_FABRIC));
    release(held);
}

/* Symmetric memory: exported anew for each group; the peers' handles are imported and mapped. */
static void torch_symmetric(void) {
    unsigned kind;
    start();
    base();
    size_t bytes = 3 * granularity(request(POSIX_FD, 0), RECOMMENDED);
    CUhandle of = ask(bytes, ALONE + 1, 0, &kind);
    CUdeviceptr at = reserve(bytes);
    map(at, bytes, 0, of);
    allow(at, bytes);
    fill(at, bytes, 0);
    ready(bytes);
    for (unsigned group = 0; group < 2; group++) {
        seen_through(export(of, kind), at, bytes, group);
        shares(bytes);
    }
    check(at, bytes, 2);
    synchronize();
    unmap(at, bytes);
    drop(of);
}

/* vLLM's sleep: memory goes and comes back at the same addresses. */
static void vllm(void) {
    unsigned kind;
    start();
    size_t bytes = 4 * granularity(request(NONE, 0), MINIMUM);
    CUdeviceptr at = reserve(bytes);
    const unsigned char none[] = {NONE, 0xff};
    for (unsigned wake = 0; wake < 3; wake++) {
        CUhandle of = ask(bytes, attribute(HAS_FABRIC) ? ALONE : wake ? ALONE + 1 : none,
                          attribute(RDMA_WITH_VMM), &kind);
        map(at, bytes, 0, of);
        allow(at, bytes);
        fill(at, bytes, wake);
        ready(bytes);
        check(at, bytes, wake);
        synchronize();
        unmap(at, bytes);
        drop(of);
    }
    give_back(at, bytes);
}

/* torch_memory_saver: created before the addresses are reserved, paused and resumed. */
static void memory_saver(void) {
    unsigned kind;
    start();
    const unsigned char none[] = {NONE, 0xff};
    CUhandle of = ask(6 * MIB, none, attribute(RDMA_WITH_VMM), &kind);
    CUdeviceptr at = reserve(6 * MIB);
    map(at, 6 * MIB, 0, of);
    allow(at, 6 * MIB);
    fill(at, 6 * MIB, 1);
    ready(6 * MIB);
    check(at, 6 * MIB, 1);
    unmap(at, 6 * MIB);
    drop(of);
    of = ask(6 * MIB, none, attribute(RDMA_WITH_VMM), &kind);
    map(at, 6 * MIB, 0, of);
    allow(at, 6 * MIB);
    fill(at, 6 * MIB, 2);
    ready(6 * MIB);
    check(at, 6 * MIB, 2);
    unmap(at, 6 * MIB);
    drop(of);
    give_back(at, 6 * MIB);
}

/* ncclMemAlloc: the handle is neither kept nor released; what frees it retains it first. */
static void nccl_alloc(void) {
    unsigned kind;
    start();
    size_t bytes = 2 * granularity(request(POSIX_FD, 0), RECOMMENDED);
    CUhandle of = ask(bytes, BOTH, attribute(RDMA_WITH_VMM), &kind);
    CUdeviceptr at = reserve(bytes), base, second = reserve(bytes);
    size_t size;
    map(at, bytes, 0, of);
    allow(at, bytes);
    fill(at, bytes, 1);
    ready(bytes);
    CHECK(retain(at + 7) == of);
    drop(of);
    /* A window maps it once more, in one flat range. */
    map(second, bytes, 0, of);
    allow(second, bytes);
    check(second, bytes, 1);
    ready(bytes);
    check(second, bytes, 1);
    unmap(second, bytes);
    of = retain(at);
    drop(of);
    MUST(CU(cuMemGetAddressRange_v2, CUdeviceptr *, size_t *, CUdeviceptr)(&base, &size, at));
    CHECK(base == at && size == bytes);
    unmap(at, bytes);
    drop(of);
    give_back(at, bytes);
    give_back(second, bytes);
}

/* NCCL's buffers between processes: its owner exports the same handle for each peer, before and after
 * it is mapped; a user's buffer is found by its address. */
static void nccl_peer(void) {
    unsigned kind;
    start();
    base();
    CUdeviceptr at = reserve(4 * MIB), user = reserve(4 * MIB);
    CUhandle of = ask(4 * MIB, ALONE + 1, attribute(RDMA_WITH_VMM), &kind);
    close(export(of, kind));
    shares(4 * MIB);
    map(at, 4 * MIB, 0, of);
    allow(at, 4 * MIB);
    fill(at, 4 * MIB, 1);
    for (unsigned peer = 0; peer < 3; peer++) {
        seen_through(export(of, kind), at, 4 * MIB, 1 + peer);
        shares(4 * MIB);
    }
    CUhandle theirs = ask(4 * MIB, ALONE + 1, attribute(RDMA_WITH_VMM), &kind);
    map(user, 4 * MIB, 0, theirs);
    allow(user, 4 * MIB);
    fill(user, 4 * MIB, 7);
    ready(4 * MIB);
    CUhandle found = retain(user + MIB);
    CHECK(found == theirs);
    int fd = export(found, kind);
    drop(found);
    shares(8 * MIB);
    seen_through(fd, user, 4 * MIB, 7);
    check(at, 4 * MIB, 4);
    unmap(user, 4 * MIB);
    drop(theirs);
    unmap(at, 4 * MIB);
    drop(of);
}

/* XLA: asks for both kinds of handle at once, for the granularity too. */
static void xla(void) {
    unsigned kind;
    size_t unit = 0;
    start();
    for (const unsigned char *it = BOTH; *it != 0xff && !unit; it++) {
        struct prop of = request(*it, attribute(RDMA_WITH_VMM));
        if (CU(cuMemGetAllocationGranularity, size_t *, const struct prop *, unsigned)(&unit, &of, RECOMMENDED) !=
            SUCCESS)
            unit = 0;
    }
    CHECK(unit);
    CUhandle of = ask(3 * unit, BOTH, attribute(RDMA_WITH_VMM), &kind);
    CUdeviceptr at = reserve(3 * unit);
    map(at, 3 * unit, 0, of);
    allow(at, 3 * unit);
    fill(at, 3 * unit, 4);
    ready(3 * unit);
    check(at, 3 * unit, 4);
    synchronize();
    unmap(at, 3 * unit);
    drop(of);
    give_back(at, 3 * unit);
}

/* ggml's pool: 32 GiB of addresses, filled from the front by handles that are released as soon as they
 * are mapped, and unmapped all at once. */
static void ggml(void) {
    const size_t pool = 32ull << 30;
    const unsigned char none[] = {NONE, 0xff};
    unsigned kind;
    size_t used = 0;
    start();
    CUdeviceptr at = reserve(pool);
    for (unsigned grown = 1; grown < 4; grown++) {
        size_t more = grown * granularity(request(NONE, 0), RECOMMENDED);
        CUhandle of = ask(more, none, 0, &kind);
        map(at + used, more, 0, of);
        drop(of);
        allow(at + used, more);
        fill(at + used, more, grown);
        used += more;
        ready(used);
    }
    check(at, SEGMENT, 1);
    unmap(at, used);
    give_back(at, pool);
}

/* NVSHMEM's heap is created for RDMA, its properties compared with a user's buffer; a dma-buf of it goes
 * to the network card. */
static void nvshmem(void) {
    unsigned kind;
    struct prop of;
    int fd = -1;
    start();
    base();
    CUhandle heap = ask(4 * MIB, ALONE + 1, 1, &kind);
    CUdeviceptr at = reserve(4 * MIB);
    map(at, 4 * MIB, 0, heap);
    allow(at, 4 * MIB);
    fill(at, 4 * MIB, 3);
    ready(4 * MIB);
    CUhandle found = retain(at);
    MUST(CU(cuMemGetAllocationPropertiesFromHandle, struct prop *, CUhandle)(&of, found));
    CHECK(of.handle_types == POSIX_FD && of.flags[1] == 1);
    drop(found);
    CUresult result = CU(cuMemGetHandleForAddressRange, void *, CUdeviceptr, size_t, unsigned, uint64_t)(
        &fd, at, 4 * MIB, 1, 0);
    CHECK(result == SUCCESS || result == NOT_SUPPORTED);
    if (result == SUCCESS) close(fd);
    shares(4 * MIB);
    check(at, 4 * MIB, 3);
    unmap(at, 4 * MIB);
    drop(heap);
}

PROBES({"torch", torch}, {"torch_shared", torch_shared}, {"torch_fabric", torch_fabric},
       {"torch_symmetric", torch_symmetric}, {"vllm", vllm}, {"memory_saver", memory_saver},
       {"nccl_alloc", nccl_alloc}, {"nccl_peer", nccl_peer}, {"xla", xla}, {"ggml", ggml},
       {"nvshmem", nvshmem})
