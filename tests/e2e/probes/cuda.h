/* The few driver calls that the probes make, declared by hand so that no CUDA toolkit is needed. */
#ifndef PROBE_CUDA_H
#define PROBE_CUDA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef void *CUmodule;
typedef void *CUfunction;
typedef void *CUstream;
typedef unsigned long long CUdeviceptr;

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t words);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra);

#define MUST(call)                                                              \
    do {                                                                        \
        CUresult must_result = (call);                                          \
        if (must_result != 0) {                                                 \
            fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, must_result); \
            exit(3);                                                            \
        }                                                                       \
    } while (0)

/* Makes device 0 current and returns the named kernel of the simulated GPU's set. */
static inline CUfunction probe_kernel(const char *name, const char *ptx) {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

/* y[i] += a * x[i] over n words. */
static inline void probe_axpy(CUfunction axpy, CUstream stream, CUdeviceptr y, CUdeviceptr x,
                              uint64_t n, uint32_t a) {
    void *params[] = {&y, &x, &n, &a};
    MUST(cuLaunchKernel(axpy, 1, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

#define PROBE_PTX                                                                           \
    ".version 6.0\n.target sm_50\n.address_size 64\n"                                       \
    ".visible .entry axpy(.param .u64 y, .param .u64 x, .param .u64 n, .param .u32 a) { ret; }\n"

#endif
