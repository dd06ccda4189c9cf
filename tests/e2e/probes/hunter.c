/* Writes what is its own to GPU memory, and hunts there for what another program wrote.
 *
 * hunter MARK PREY MIB
 *
 * Fills memory of all three kinds (cuMemAlloc with holes between what lives, the program's own handles of
 * one granule, stream-ordered) with words that start with MARK. For each line on standard input it looks
 * at all of it:
 *   {"words":N,"prey":N,"strange":N}    words seen, those that start with PREY, those that are not MARK's
 * A line "fresh" takes MIB more, writes nothing and looks at that alone.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCK = 3 * MIB, GRANULE = 2 * MIB, PARTS = 12 };

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
CUresult cuMemCreate(handle *made, size_t bytes, const struct allocation *of, unsigned long long flags);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, handle made, unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const struct access *access, size_t count);
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream);

static struct part { CUdeviceptr at; size_t bytes; } parts[4 * PARTS];
static size_t count;
static unsigned mark, prey;

static void keep(CUdeviceptr at, size_t bytes) {
    parts[count++] = (struct part){at, bytes};
}

/* All of what was allocated is written: what a program leaves unwritten is the driver's to clear. */
static void fill(struct part part) {
    MUST(cuMemsetD32_v2(part.at, mark << 16 | 0x1234, part.bytes / 4));
}

static void look(const struct part *from, const struct part *to) {
    static uint32_t host[16 * MIB / 4];
    size_t words = 0, found = 0, strange = 0;
    for (; from < to; from++) {
        for (size_t done = 0; done < from->bytes; done += sizeof host) {
            size_t bytes = from->bytes - done < sizeof host ? from->bytes - done : sizeof host;
            MUST(cuMemcpyDtoH_v2(host, from->at + done, bytes));
            for (size_t i = 0; i < bytes / 4; i++) {
                words++;
                found += host[i] >> 16 == prey;
                strange += host[i] >> 16 != mark;
            }
        }
    }
    printf("{\"words\":%zu,\"prey\":%zu,\"strange\":%zu}\n", words, found, strange);
    fflush(stdout);
}

int main(int arguments, char **argument) {
    if (arguments != 4) return 2;
    mark = (unsigned)strtoul(argument[1], NULL, 16);
    prey = (unsigned)strtoul(argument[2], NULL, 16);
    size_t fresh = strtoul(argument[3], NULL, 10) * MIB;
    (void)probe_kernel("axpy", PROBE_PTX);

    CUdeviceptr at;
    for (int i = 0; i < PARTS / 2; i++) {
        /* Every second one goes, so that chunks have holes. */
        CUdeviceptr gone;
        MUST(cuMemAlloc_v2(&gone, MIB / 2 + 512));
        MUST(cuMemAlloc_v2(&at, BLOCK));
        fill((struct part){gone, MIB / 2});
        fill((struct part){at, BLOCK});
        keep(at, BLOCK);
        MUST(cuMemFree_v2(gone));
    }
    CUdeviceptr region;
    MUST(cuMemAddressReserve(&region, PARTS * (size_t)GRANULE, 0, 0, 0));
    for (int i = 0; i < PARTS / 2; i++) {
        const struct allocation pinned = {.type = 1, .location = {.type = 1}};
        const struct access access = {.location = {.type = 1}, .flags = 3};
        handle made;
        at = region + 2 * (size_t)i * GRANULE;
        MUST(cuMemCreate(&made, GRANULE, &pinned, 0));
        MUST(cuMemMap(at, GRANULE, 0, made, 0));
        MUST(cuMemSetAccess(at, GRANULE, &access, 1));
        fill((struct part){at, GRANULE});
        keep(at, GRANULE);
    }
    MUST(cuMemAllocAsync(&at, BLOCK, NULL));
    fill((struct part){at, BLOCK});
    keep(at, BLOCK);
    MUST(cuCtxSynchronize());
    printf("ready\n");
    fflush(stdout);

    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "fresh\n") != 0) {
            look(parts, parts + count);
            continue;
        }
        MUST(cuMemAlloc_v2(&at, fresh));
        const struct part part = {at, fresh};
        look(&part, &part + 1);
    }
    return 0;
}
