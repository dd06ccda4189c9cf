/* A driver that does nothing, at once: what is left of a call's time is the agent's.
 *
 * It says yes to everything and holds no byte. Functions that answer are here; stub_rest.h, made
 * for each run, lists every other function that the simulated driver exports.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "stub_rest.h"

typedef unsigned long long Word;

enum { GRANULE = 2 << 20 };
static const Word MEMORY = 24ULL << 30;
static Word next = 1ULL << 40;

static Word take(size_t bytes) {
    return __atomic_fetch_add(&next, (bytes + GRANULE - 1) / GRANULE * GRANULE, __ATOMIC_RELAXED);
}

int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetUuid(char *uuid, int device) { (void)device; memcpy(uuid, "rtswap-bench-gpu", 16); return 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = MEMORY; return 0; }
// It has virtual memory management (102) and nothing else that anybody asks for.
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 102; return 0; }
int cuDevicePrimaryCtxRetain(Word *context, int device) { (void)device; *context = 16; return 0; }
int cuCtxGetCurrent(Word *context) { *context = 16; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuModuleLoadData(Word *module, const void *image) { (void)image; *module = 16; return 0; }
int cuModuleGetFunction(Word *function, Word module, const char *name) { (void)module, (void)name; *function = 16; return 0; }
int cuMemGetAllocationGranularity(size_t *bytes, const void *p, int kind) { (void)p, (void)kind; *bytes = GRANULE; return 0; }
int cuMemAddressReserve(Word *at, size_t bytes, size_t align, Word hint, Word flags) {
    (void)hint, (void)flags;
    Word some = take(bytes + align);
    *at = align ? (some + align - 1) / align * align : some;
    return 0;
}
int cuMemCreate(Word *handle, size_t bytes, const void *p, Word flags) { (void)bytes, (void)p, (void)flags; *handle = take(1); return 0; }
int cuMemAlloc_v2(Word *at, size_t bytes) { *at = take(bytes); return 0; }
int cuMemHostAlloc(void **host, size_t bytes, unsigned flags) { (void)flags; *host = malloc(bytes); return *host ? 0 : 2; }
int cuMemFreeHost(void *host) { free(host); return 0; }
int cuStreamCreate(Word *stream, unsigned flags) { (void)flags; *stream = take(1); return 0; }
int cuStreamGetCtx(Word stream, Word *context) { (void)stream; *context = 16; return 0; }
int cuDeviceGetMemPool(Word *pool, int device) { (void)device; *pool = 32; return 0; }
int cuDeviceGetDefaultMemPool(Word *pool, int device) { return cuDeviceGetMemPool(pool, device); }
int cuMemAllocAsync(Word *at, size_t bytes, Word stream) { (void)stream; *at = take(bytes); return 0; }
int cuStreamIsCapturing(Word stream, int *captures) { (void)stream; *captures = 0; return 0; }
int cuEventCreate(Word *event, unsigned flags) { (void)flags; *event = take(1); return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { *left = *total = MEMORY; return 0; }
