/* The program's own physical memory before, while and after it is out, as two kinds of programs use it.
 * One phase for each line on standard input:
 *   {"wrong":N}                                         all of it filled, and read back
 *   {"type":B,"ordinal":B,"base":B,"size":B,"range":B,"mapped":B,"access":B,"retained":B,"prop":B,
 *    "refused":N,"mapped_out":B,"unmapped":B,"created":B}   asked and changed while it is out
 *   {"wrong":N,"late":N,"twice":N}                      after it came back
 *   {"alone":1}                                         a handle that is mapped nowhere, to go out
 *   {"wrong":N}                                         mapped again
 *   {"left":0}                                          all given back
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, SMALL = 2 * MIB, LARGE = 20 * MIB, OTHER = 6 * MIB, INVALID_VALUE = 1 };
enum { READ = 1, READ_WRITE = 3 };

struct location { int type, id; };
struct allocation {
    int type, handle_types;
    struct location location;
    void *security;
    unsigned char flags[8];
};
struct access { struct location location; int flags; };
typedef unsigned long long handle;

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes);
CUresult cuMemCreate(handle *made, size_t bytes, const struct allocation *of, unsigned long long flags);
CUresult cuMemRelease(handle made);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, handle made, unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr at, size_t bytes);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const struct access *access, size_t count);
CUresult cuMemGetAccess(unsigned long long *flags, const struct location *location, CUdeviceptr at);
CUresult cuMemRetainAllocationHandle(handle *made, void *at);
CUresult cuMemGetAllocationPropertiesFromHandle(struct allocation *of, handle made);
CUresult cuMemExportToShareableHandle(void *shared, handle made, int type, unsigned long long flags);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at);

static const struct allocation PINNED = {.type = 1, .location = {.type = 1}};

static handle create(size_t bytes) {
    handle made;
    MUST(cuMemCreate(&made, bytes, &PINNED, 0));
    return made;
}

static void allow(CUdeviceptr at, size_t bytes, int flags) {
    const struct access access = {.location = {.type = 1}, .flags = flags};
    MUST(cuMemSetAccess(at, bytes, &access, 1));
}

static uint32_t *words(size_t bytes, uint32_t seed) {
    static uint32_t host[LARGE / 4];
    for (size_t i = 0; i < bytes / 4; i++) host[i] = (uint32_t)i * 2654435761u + seed;
    return host;
}

static void fill(CUdeviceptr at, size_t bytes, uint32_t seed) {
    MUST(cuMemcpyHtoD_v2(at, words(bytes, seed), bytes));
}

/* Words that are not what they were. */
static size_t wrong(CUdeviceptr at, size_t bytes, uint32_t seed) {
    static uint32_t back[LARGE / 4];
    const uint32_t *expected = words(bytes, seed);
    size_t count = 0;
    MUST(cuMemcpyDtoH_v2(back, at, bytes));
    for (size_t i = 0; i < bytes / 4; i++) count += back[i] != expected[i];
    return count;
}

static uint64_t about(int attribute, CUdeviceptr at) {
    uint64_t value = 0;
    MUST(cuPointerGetAttribute(&value, attribute, at));
    return value;
}

static void next(void) {
    char line;
    fflush(stdout);
    if (read(0, &line, 1) != 1) exit(0);
}

int main(void) {
    CUdeviceptr segment, once, other, base;
    size_t bytes;
    (void)probe_kernel("axpy", PROBE_PTX);
    printf("ready\n");
    next();

    /* A segment that grows by pieces, as PyTorch's expandable ones: small ones, then a large one. */
    handle small[3], large;
    MUST(cuMemAddressReserve(&segment, 256 * MIB, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        small[i] = create(SMALL);
        MUST(cuMemMap(segment + i * SMALL, SMALL, 0, small[i], 0));
        allow(segment + i * SMALL, SMALL, READ_WRITE);
        fill(segment + i * SMALL, SMALL, i);
    }
    CUdeviceptr grown = segment + 3 * SMALL;
    large = create(LARGE);
    MUST(cuMemMap(grown, LARGE, 0, large, 0));
    allow(segment, 3 * SMALL + LARGE, READ_WRITE);
    fill(grown, LARGE, 3);
    MUST(cuMemUnmap(segment + SMALL, SMALL));
    MUST(cuMemRelease(small[1]));

    /* One buffer whose handle is given up at once, as JAX and NCCL do. */
    MUST(cuMemAddressReserve(&once, OTHER, 0, 0, 0));
    handle gone = create(OTHER);
    MUST(cuMemMap(once, OTHER, 0, gone, 0));
    MUST(cuMemRelease(gone));
    allow(once, OTHER, READ_WRITE);
    fill(once, OTHER, 4);
    MUST(cuMemAddressReserve(&other, 2 * OTHER, 0, 0, 0));
    printf("{\"wrong\":%zu}\n", wrong(segment, SMALL, 0) + wrong(segment + 2 * SMALL, SMALL, 2) +
                                    wrong(grown, LARGE, 3) + wrong(once, OTHER, 4));
    next();

    /* Out: every answer as if it were there, and changes that take effect later. */
    unsigned long long flags = 0;
    const struct location here = {.type = 1};
    struct allocation of;
    int shared, refused = 0;
    handle again = 0;
    MUST(cuMemGetAccess(&flags, &here, grown + MIB));
    MUST(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(once + MIB)));
    MUST(cuMemGetAllocationPropertiesFromHandle(&of, again));
    MUST(cuMemGetAddressRange_v2(&base, &bytes, grown + 5 * MIB));
    refused += cuMemUnmap(grown, SMALL) == INVALID_VALUE;
    refused += cuMemAddressFree(segment, 256 * MIB) == INVALID_VALUE;
    refused += cuMemMap(segment, SMALL, 0, small[2], 0) == INVALID_VALUE;
    refused += cuMemMap(other, LARGE, 0, large, 0) == INVALID_VALUE;
    refused += cuMemExportToShareableHandle(&shared, large, 1, 0) == INVALID_VALUE;
    refused += cuMemRelease(small[1]) == INVALID_VALUE;
    int mapped_out = cuMemMap(other, OTHER, 0, again, 0) == 0;
    allow(other, OTHER, READ);
    int unmapped = cuMemUnmap(segment + 2 * SMALL, SMALL) == 0 && cuMemRelease(small[2]) == 0;
    handle late = create(SMALL);
    MUST(cuMemMap(segment + SMALL, SMALL, 0, late, 0));
    allow(segment + SMALL, SMALL, READ_WRITE);
    printf("{\"type\":%d,\"ordinal\":%d,\"base\":%d,\"size\":%d,\"range\":%d,\"mapped\":%d,"
           "\"access\":%d,\"retained\":%d,\"prop\":%d,\"refused\":%d,\"mapped_out\":%d,"
           "\"unmapped\":%d,\"created\":%d}\n",
           about(2, once) == 2, (int)about(9, once) == 0, base == grown, bytes == LARGE,
           about(11, grown) == segment && about(12, grown) == 256 * MIB, (int)about(13, grown),
           flags == READ_WRITE, again != 0, !memcmp(&of, &PINNED, sizeof of), refused, mapped_out,
           unmapped, late != 0);
    next();

    /* Back. */
    size_t count = wrong(segment, SMALL, 0) + wrong(grown, LARGE, 3) + wrong(once, OTHER, 4) +
                   wrong(other, OTHER, 4);
    fill(segment + SMALL, SMALL, 5);
    allow(other, OTHER, READ_WRITE);
    fill(other, OTHER, 6);
    printf("{\"wrong\":%zu,\"late\":%zu,\"twice\":%zu}\n", count,
           wrong(segment + SMALL, SMALL, 5), wrong(once, OTHER, 6));
    next();

    /* Nowhere mapped: the last handle keeps the bytes. */
    MUST(cuMemUnmap(once, OTHER));
    MUST(cuMemUnmap(other, OTHER));
    printf("{\"alone\":1}\n");
    next();
    MUST(cuMemMap(once, OTHER, 0, again, 0));
    allow(once, OTHER, READ_WRITE);
    printf("{\"wrong\":%zu}\n", wrong(once, OTHER, 6) + wrong(grown, LARGE, 3));
    next();

    MUST(cuMemUnmap(segment, 2 * SMALL));
    MUST(cuMemUnmap(grown, LARGE));
    MUST(cuMemUnmap(once, OTHER));
    MUST(cuMemRelease(small[0]));
    MUST(cuMemRelease(late));
    MUST(cuMemRelease(large));
    MUST(cuMemRelease(again));
    MUST(cuMemAddressFree(segment, 256 * MIB));
    MUST(cuMemAddressFree(once, OTHER));
    MUST(cuMemAddressFree(other, 2 * OTHER));
    printf("{\"left\":0}\n");
    next();
    return 0;
}
