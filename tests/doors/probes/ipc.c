/* Memory that is shared with another process of the same task. */
#include "probe.h"

#include <sys/wait.h>

enum { BYTES = 3 * MIB, LAZY_PEER_ACCESS = 1 };

struct ipc {
    unsigned char bytes[64];
};

/* The other process: opens what comes through the pipe, changes it, and closes it. */
static int peer(int in, int out) {
    struct ipc handle;
    CUdeviceptr at;
    if (read(in, &handle, sizeof handle) != (ssize_t)sizeof handle) return 6;
    start();
    MUST(CU(cuIpcOpenMemHandle_v2, CUdeviceptr *, struct ipc, unsigned)(&at, handle, LAZY_PEER_ACCESS));
    check(at, BYTES, 1);
    fill(at, BYTES, 2);
    synchronize();
    MUST(CU(cuIpcCloseMemHandle, CUdeviceptr)(at));
    return write(out, "x", 1) == 1 ? 0 : 6;
}

static void memory(void) {
    int there[2], back[2], status;
    struct ipc handle;
    char byte;
    CHECK(!pipe(there) && !pipe(back));
    pid_t child = fork();
    if (child == 0) _exit(peer(there[0], back[1]));
    start();
    base();
    CUdeviceptr at = alloc(BYTES);
    fill(at, BYTES, 1);
    MUST(CU(cuIpcGetMemHandle, struct ipc *, CUdeviceptr)(&handle, at));
    ready(BYTES);
    check(at, BYTES, 1);
    CHECK(write(there[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
    CHECK(read(back[0], &byte, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check(at, BYTES, 2);
    release(at);
    freed();
}

PROBES({"memory", memory})
