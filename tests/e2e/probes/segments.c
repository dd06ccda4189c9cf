/* A program whose memory is PyTorch's expandable segments: segments of 20 MiB, created for a fabric or
 * else for descriptors, mapped one by one into one large reservation. Fills MiB of argv[1] with words of
 * argv[2], and adds to them so many times as argv[3] says; each pass it looks at all of them. With a
 * fourth argument the first segment is exported at the end, and stays until a line of standard input.
 */
#include "cuda.h"

#include <string.h>
#include <unistd.h>

enum { SEGMENT = 20 << 20, WORDS = SEGMENT / 4, PINNED = 1, DEVICE = 1, READ_WRITE = 3 };
enum { POSIX_FD = 1, FABRIC = 8, NOT_PERMITTED = 800, NOT_SUPPORTED = 801 };
enum { RDMA_WITH_VMM = 110, MOST = 64 };

typedef unsigned long long CUhandle;

struct prop {
    unsigned kind, handle_types, location, id;
    void *security;
    unsigned char flags[8];
};
struct access {
    unsigned location, id, flags;
};

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted,
                             unsigned long long flags);
CUresult cuMemCreate(CUhandle *made, size_t bytes, const struct prop *of, unsigned long long flags);
CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUhandle of, unsigned long long flags);
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const struct access *access, size_t count);
CUresult cuMemExportToShareableHandle(void *out, CUhandle of, unsigned kind, unsigned long long flags);

static CUhandle segment(void) {
    static unsigned kind = FABRIC;
    struct prop of = {.kind = PINNED, .handle_types = kind, .location = DEVICE};
    CUhandle made;
    int rdma;
    MUST(cuDeviceGetAttribute(&rdma, RDMA_WITH_VMM, 0));
    of.flags[1] = rdma != 0;
    CUresult result = cuMemCreate(&made, SEGMENT, &of, 0);
    if (kind == FABRIC && (result == NOT_PERMITTED || result == NOT_SUPPORTED)) {
        kind = POSIX_FD;
        return segment();
    }
    MUST(result);
    return made;
}

int main(int count, char **arguments) {
    const struct access here = {DEVICE, 0, READ_WRITE};
    CUhandle handles[MOST];
    CUdeviceptr at;
    if (count < 4) return 2;
    const unsigned segments = (unsigned)atoi(arguments[1]) * (1 << 20) / SEGMENT;
    const uint32_t seed = (uint32_t)atoi(arguments[2]);
    const unsigned passes = (unsigned)atoi(arguments[3]);
    if (segments > MOST) return 2;
    uint32_t *host = malloc(SEGMENT);
    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAddressReserve(&at, (size_t)MOST * SEGMENT, 0, 0, 0));
    for (unsigned i = 0; i < segments; i++) {
        handles[i] = segment();
        MUST(cuMemMap(at + (size_t)i * SEGMENT, SEGMENT, 0, handles[i], 0));
        MUST(cuMemSetAccess(at + (size_t)i * SEGMENT, SEGMENT, &here, 1));
        for (uint32_t word = 0; word < WORDS; word++) host[word] = seed + i + word;
        MUST(cuMemcpyHtoD_v2(at + (size_t)i * SEGMENT, host, SEGMENT));
    }
    printf("ready\n");
    fflush(stdout);
    for (unsigned pass = 1; pass <= passes; pass++) {
        for (unsigned i = 0; i < segments; i++) {
            /* x += x: doubles every word. */
            CUdeviceptr here_at = at + (size_t)i * SEGMENT;
            probe_axpy(axpy, NULL, here_at, here_at, WORDS, 1);
            MUST(cuCtxSynchronize());
            MUST(cuMemcpyDtoH_v2(host, here_at, SEGMENT));
            for (uint32_t word = 0; word < WORDS; word++) {
                if (host[word] != (seed + i + word) << pass) {
                    fprintf(stderr, "pass %u, segment %u, word %u: %u\n", pass, i, word, host[word]);
                    return 4;
                }
            }
        }
        /* Idle for a moment, so that the other gets its turn. */
        usleep(20000);
    }
    if (count > 4) {
        int fd;
        MUST(cuMemExportToShareableHandle(&fd, handles[0], POSIX_FD, 0));
        printf("exported\n");
        fflush(stdout);
        if (getchar() == EOF) return 5;
        close(fd);
    }
    printf("ok\n");
    return 0;
}
