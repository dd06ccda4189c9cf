/* What all probes share. Each file is one program, each of its probes a function that its only
 * argument names.
 *
 * A probe speaks by lines, and waits for a line after each of these but `called` and `ok`:
 *   ready BYTES   it holds that much; now its memory may be taken away
 *   called        the call that it made since `ready` has come back
 *   answered      its questions since `ready` have been answered
 *   shared BYTES  that much was given to others since `base`, and stays
 *   base, freed   before an allocation that is only counted, and after its free
 *   ok            all was right: the last line
 * Driver functions are looked up by name, so that no CUDA toolkit is needed and a driver that lacks
 * one fails only the probes of that one.
 */
#ifndef PROBE_H
#define PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef void *CUmodule;
typedef void *CUfunction;
typedef void *CUstream;
typedef void *CUevent;
typedef void *CUarray;
typedef void *CUgraph;
typedef void *CUgraphNode;
typedef void *CUgraphExec;
typedef void *CUmemoryPool;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUhandle;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    MIB = 1 << 20,
    CHUNK = 2 << 20,
    NON_BLOCKING = 1,
};

static inline void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

/* Waits for a line. */
static inline void turn(void) {
    char byte;
    do {
        if (read(0, &byte, 1) != 1) exit(5);
    } while (byte != '\n');
}

static inline void ready(size_t bytes) {
    say("ready %zu", bytes);
    turn();
}

static inline void shares(size_t bytes) {
    say("shared %zu", bytes);
    turn();
}

static inline void called(void) { say("called"); }

static inline void answered(void) {
    say("answered");
    turn();
}

static inline void base(void) {
    say("base");
    turn();
}

static inline void freed(void) {
    say("freed");
    turn();
}

static inline void fail(const char *file, int line, const char *what, long long got) {
    fprintf(stderr, "%s:%d: %s: %lld\n", file, line, what, got);
    exit(3);
}

/* The driver's function of that name. */
static inline void *door(const char *name) {
    static void *driver;
    if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(4);
    }
    return found;
}

/* A driver function with the types of its arguments, to be called. */
#define CU(name, ...) ((CUresult(*)(__VA_ARGS__))door(#name))
/* The same with a name that is known at run time only. */
#define CU_NAMED(name, ...) ((CUresult(*)(__VA_ARGS__))door(name))

#define MUST(call)                                                                          \
    do {                                                                                    \
        CUresult must_result = (call);                                                      \
        if (must_result != SUCCESS) fail(__FILE__, __LINE__, #call, must_result);           \
    } while (0)

#define CHECK(what)                                                                         \
    do {                                                                                    \
        if (!(what)) fail(__FILE__, __LINE__, #what, 0);                                    \
    } while (0)

/* Makes the primary context of device 0 current. */
static inline CUcontext start(void) {
    CUcontext context;
    MUST(CU(cuInit, unsigned)(0));
    MUST(CU(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&context, 0));
    MUST(CU(cuCtxSetCurrent, CUcontext)(context));
    return context;
}

static inline void synchronize(void) { MUST(CU(cuCtxSynchronize, void)()); }

static inline CUdeviceptr alloc(size_t bytes) {
    CUdeviceptr at;
    MUST(CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, bytes));
    return at;
}

static inline void release(CUdeviceptr at) { MUST(CU(cuMemFree_v2, CUdeviceptr)(at)); }

static inline CUstream stream(void) {
    CUstream made;
    MUST(CU(cuStreamCreate, CUstream *, unsigned)(&made, NON_BLOCKING));
    return made;
}

static inline void wait_for(CUstream stream) { MUST(CU(cuStreamSynchronize, CUstream)(stream)); }

static inline void to_device(CUdeviceptr to, const void *from, size_t bytes) {
    MUST(CU(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)(to, from, bytes));
}

static inline void to_host(void *to, CUdeviceptr from, size_t bytes) {
    MUST(CU(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)(to, from, bytes));
}

/* The byte at `i` of the pattern `seed`: differs between words, pages and seeds. */
static inline unsigned char pattern(unsigned seed, size_t i) {
    uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u + 1;
    x ^= x >> 15;
    return (unsigned char)(x * 2246822519u >> 24);
}

static inline unsigned char *patterned(size_t bytes, unsigned seed) {
    unsigned char *host = malloc(bytes);
    CHECK(host);
    for (size_t i = 0; i < bytes; i++) host[i] = pattern(seed, i);
    return host;
}

/* Fills device memory with a pattern. */
static inline void fill(CUdeviceptr at, size_t bytes, unsigned seed) {
    unsigned char *host = patterned(bytes, seed);
    to_device(at, host, bytes);
    free(host);
}

static inline void check_host(const unsigned char *host, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) {
        if (host[i] != pattern(seed, i)) fail(__FILE__, __LINE__, "a byte is wrong", (long long)i);
    }
}

/* Checks that device memory has a pattern. */
static inline void check(CUdeviceptr at, size_t bytes, unsigned seed) {
    unsigned char *host = malloc(bytes);
    CHECK(host);
    memset(host, 0, bytes);
    to_host(host, at, bytes);
    check_host(host, bytes, seed);
    free(host);
}

/* Kernels of the simulated GPU's set, which goes by their names, as real ones compute them:
 * y[i] += a * x[i] for i < n, and ns nanoseconds of waiting. */
#define PROBE_PTX                                                                           \
    ".version 6.0\n.target sm_50\n.address_size 64\n"                                       \
    ".visible .entry axpy(.param .u64 py, .param .u64 px, .param .u64 pn, .param .u32 pa) {\n"  \
    ".reg .pred %done; .reg .b32 %id, %size, %block, %blocks, %a, %u, %v;\n"                \
    ".reg .b64 %y, %x, %n, %i, %step, %at, %from;\n"                                        \
    "ld.param.u64 %y, [py]; ld.param.u64 %x, [px]; ld.param.u64 %n, [pn];\n"                \
    "ld.param.u32 %a, [pa]; cvta.to.global.u64 %y, %y; cvta.to.global.u64 %x, %x;\n"        \
    "mov.u32 %id, %tid.x; mov.u32 %size, %ntid.x;\n"                                        \
    "mov.u32 %block, %ctaid.x; mov.u32 %blocks, %nctaid.x; cvt.u64.u32 %i, %id;\n"          \
    "mad.wide.u32 %i, %block, %size, %i; mul.wide.u32 %step, %blocks, %size;\n"             \
    "AXPY_LOOP: setp.ge.u64 %done, %i, %n; @%done bra AXPY_END;\n"                          \
    "shl.b64 %from, %i, 2; add.u64 %at, %y, %from; add.u64 %from, %x, %from;\n"             \
    "ld.global.u32 %u, [%at]; ld.global.u32 %v, [%from]; mad.lo.u32 %u, %a, %v, %u;\n"      \
    "st.global.u32 [%at], %u; add.u64 %i, %i, %step; bra AXPY_LOOP;\n"                      \
    "AXPY_END: ret; }\n"                                                                    \
    ".visible .entry spin(.param .u64 pns) {\n"                                             \
    ".reg .pred %more; .reg .b64 %ns, %start, %now;\n"                                      \
    "ld.param.u64 %ns, [pns]; mov.u64 %start, %globaltimer;\n"                              \
    "SPIN_LOOP: mov.u64 %now, %globaltimer; sub.u64 %now, %now, %start;\n"                  \
    "setp.lt.u64 %more, %now, %ns; @%more bra SPIN_LOOP; ret; }\n"

static inline CUfunction kernel(const char *name) {
    CUmodule module;
    CUfunction function;
    MUST(CU(cuModuleLoadData, CUmodule *, const void *)(&module, PROBE_PTX));
    MUST(CU(cuModuleGetFunction, CUfunction *, CUmodule, const char *)(&function, module, name));
    return function;
}

struct probe {
    const char *name;
    void (*run)(void);
};

/* Runs the probe that argv[1] names. */
static inline int probe_main(int argc, char **argv, const struct probe *probes, size_t count) {
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (!strcmp(probes[i].name, argv[1])) {
            probes[i].run();
            say("ok");
            return 0;
        }
    }
    fprintf(stderr, "no such probe\n");
    return 2;
}

#define PROBES(...)                                                                         \
    int main(int argc, char **argv) {                                                       \
        static const struct probe probes[] = {__VA_ARGS__};                                 \
        return probe_main(argc, argv, probes, sizeof probes / sizeof *probes);              \
    }

#endif
