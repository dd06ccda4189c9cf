/* Memory of one process in another.
 *
 * ipc offer          makes a buffer that does not start with a chunk, fills it, and prints its
 *                    handle in hex; for each line on standard input then prints {"first":N,"bad":N}
 *                    of what it finds there, and at last {"freed":N}
 * ipc open HANDLE    opens it, checks it, adds 1 to each word, opens it again, closes it twice:
 *                    {"bad":N,"same":B,"base":B,"size":N,"again":N,"closed":N,"twice":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <unistd.h>

enum { WORDS = (5 << 20) / 4, BEFORE = 700 << 10 };

typedef struct { unsigned char bytes[64]; } CUipcMemHandle;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr at);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);

static uint32_t host[WORDS];

static void next(void) {
    char line;
    fflush(stdout);
    if (read(0, &line, 1) != 1) exit(0);
}

static int bad(CUdeviceptr at, uint32_t add) {
    int wrong = 0;
    MUST(cuMemcpyDtoH_v2(host, at, sizeof host));
    for (uint32_t i = 0; i < WORDS; i++) wrong += host[i] != 3 * i + add;
    return wrong;
}

static int offer(void) {
    CUdeviceptr before, at;
    CUipcMemHandle handle, same;
    MUST(cuMemAlloc_v2(&before, BEFORE));
    MUST(cuMemAlloc_v2(&at, sizeof host));
    for (uint32_t i = 0; i < WORDS; i++) host[i] = 3 * i;
    MUST(cuMemcpyHtoD_v2(at, host, sizeof host));
    MUST(cuIpcGetMemHandle(&handle, at));
    MUST(cuIpcGetMemHandle(&same, at + 4));
    if (memcmp(&handle, &same, sizeof handle)) return 4;
    /* The driver does not open what its own process made. */
    if (cuIpcOpenMemHandle_v2(&before, handle, 1) != 201) return 5;
    printf("handle ");
    for (int i = 0; i < 64; i++) printf("%02x", handle.bytes[i]);
    printf("\n");
    next();
    printf("{\"bad\":%d}\n", bad(at, 1));
    next();
    printf("{\"freed\":%d}\n", cuMemFree_v2(at));
    next();
    return 0;
}

static int open_it(const char *hex) {
    CUdeviceptr at, again, base, ones;
    CUipcMemHandle handle;
    size_t bytes;
    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    for (int i = 0; i < 64; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) return 2;
        handle.bytes[i] = byte;
    }
    int status = cuIpcOpenMemHandle_v2(&at, handle, 1);
    if (status) {
        printf("{\"status\":%d}\n", status);
        next();
        return 0;
    }
    int wrong = bad(at, 0);
    MUST(cuMemAlloc_v2(&ones, sizeof host));
    MUST(cuMemsetD32_v2(ones, 1, WORDS));
    probe_axpy(axpy, NULL, at, ones, WORDS, 1);
    MUST(cuCtxSynchronize());
    wrong += bad(at, 1);
    MUST(cuMemGetAddressRange_v2(&base, &bytes, at + 512));
    MUST(cuIpcOpenMemHandle_v2(&again, handle, 1));
    MUST(cuIpcCloseMemHandle(at));
    int still = bad(at, 1);
    int closed = cuIpcCloseMemHandle(at);
    printf("{\"bad\":%d,\"same\":%d,\"base\":%d,\"size\":%zu,\"still\":%d,\"closed\":%d,"
           "\"twice\":%d}\n",
           wrong, again == at, base == at, bytes, still, closed, cuIpcCloseMemHandle(at) != 0);
    next();
    return 0;
}

int main(int argc, char **argv) {
    (void)probe_kernel("axpy", PROBE_PTX);
    printf("ready\n");
    next();
    return argc == 3 ? open_it(argv[2]) : offer();
}
