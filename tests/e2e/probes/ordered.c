/* Stream-ordered memory before and while it is out, one phase for each line on standard input:
 *   {"fresh":B,"reused":B,"waited":B,"apart":B,"twice":N,"middle":N,"used":N,"most":N}
 *   {"pool":B,"context":B,"start":B,"size":N,"gone":N,"plain_context":B,"ids":B,"out_reuse":B}
 *   {"wrong":N,"plain_freed":N,"left":N,"reserved":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, WORDS = 3 * MIB / 8, INVALID_VALUE = 1 };

typedef void *CUmemoryPool;

CUresult cuCtxGetCurrent(CUcontext *current);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr at);

static CUmemoryPool pool;

static unsigned long long level(int attribute) {
    unsigned long long bytes = 0;
    MUST(cuMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
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
    static uint32_t host[WORDS], back[WORDS];
    CUcontext context;
    CUstream one, two;
    CUdeviceptr kept, first, second, third, fourth, plain;
    CUfunction axpy = probe_kernel("axpy", PROBE_PTX);
    MUST(cuCtxGetCurrent(&context));
    MUST(cuDeviceGetDefaultMemPool(&pool, 0));
    MUST(cuStreamCreate(&one, 1));
    MUST(cuStreamCreate(&two, 1));
    printf("ready\n");
    next();

    /* What one stream freed it has again at once; another one only when the work is done. */
    for (size_t i = 0; i < WORDS; i++) host[i] = 7 * i;
    MUST(cuMemAllocAsync(&kept, sizeof host, one));
    MUST(cuMemAllocAsync(&first, 3 * MIB, one));
    MUST(cuMemAlloc_v2(&plain, sizeof host));
    MUST(cuMemcpyHtoD_v2(kept, host, sizeof host));
    MUST(cuMemcpyHtoD_v2(plain, host, sizeof host));
    for (int i = 0; i < 200; i++) probe_axpy(axpy, one, first, kept, WORDS, 1);
    MUST(cuMemFreeAsync(first, one));
    MUST(cuMemAllocAsync(&second, 3 * MIB, two));
    MUST(cuMemAllocAsync(&third, 3 * MIB, one));
    int apart = second != first;
    int twice = cuMemFreeAsync(first + 512, one), reused = third == first;
    MUST(cuMemFreeAsync(third, one));
    int again = cuMemFreeAsync(third, one);
    MUST(cuStreamSynchronize(one));
    MUST(cuMemAllocAsync(&fourth, 3 * MIB, two));
    printf("{\"fresh\":%d,\"reused\":%d,\"waited\":%d,\"apart\":%d,\"twice\":%d,\"middle\":%d,"
           "\"used\":%llu,\"most\":%d}\n",
           kept != first, reused, fourth == first, apart, again, twice, level(7),
           level(8) >= level(7));
    next();

    /* Its memory is out now. */
    CUdeviceptr inside, small;
    int gone = cuPointerGetAttribute(&inside, 3, third + 3 * MIB + 512);
    MUST(cuMemFreeAsync(fourth, two));
    int freed = cuPointerGetAttribute(&inside, 3, fourth);
    MUST(cuMemAllocAsync(&small, 1000, two));
    printf("{\"pool\":%d,\"context\":%d,\"start\":%d,\"size\":%llu,\"gone\":%d,"
           "\"plain_context\":%d,\"ids\":%d,\"out_reuse\":%d}\n",
           about(17, kept + 4) == (uint64_t)pool, about(1, kept) == 0,
           about(11, kept + 512) == kept, (unsigned long long)about(12, kept + 512),
           freed == INVALID_VALUE && gone != 0,
           about(1, plain) == (uint64_t)context && about(17, plain) == 0,
           about(7, plain) != about(7, kept) && about(7, kept) == about(7, kept + 512),
           small == fourth);
    next();

    int wrong = 0;
    MUST(cuMemcpyDtoH_v2(back, kept, sizeof back));
    wrong += memcmp(back, host, sizeof back) != 0;
    MUST(cuMemcpyDtoH_v2(back, plain, sizeof back));
    wrong += memcmp(back, host, sizeof back) != 0;
    /* cuMemAlloc's memory in a stream's order, and a pool's by cuMemFree. */
    MUST(cuMemFreeAsync(plain, one));
    int plain_freed = cuMemFree_v2(plain);
    MUST(cuMemFree_v2(kept));
    MUST(cuMemFreeAsync(second, two));
    MUST(cuMemFreeAsync(small, two));
    MUST(cuCtxSynchronize());
    MUST(cuMemPoolTrimTo(pool, 0));
    printf("{\"wrong\":%d,\"plain_freed\":%d,\"left\":%llu,\"reserved\":%llu}\n", wrong,
           plain_freed, level(7), level(5));
    next();
    return 0;
}
