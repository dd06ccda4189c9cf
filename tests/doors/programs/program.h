/* What the programs share. Each uses much of one part of the driver at random, as its documentation allows, and prints a
 * digest of all bytes that it has seen after each round: `program SEED ROUNDS`. The same seed gives the same digests, whoever
 * stands between the program and its driver.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "../probes/probe.h"

enum { DISABLE_TIMING = 2 };

static uint64_t program_state, program_digest;

static inline uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t next(void) { return mixed(program_state += 0x9e3779b97f4a7c15u); }

static inline unsigned below(unsigned bound) { return (unsigned)(next() % bound); }

/* Adds a value to what has been seen. */
static inline void saw(uint64_t value) { program_digest = mixed(program_digest + value + 1); }

static inline void saw_bytes(const void *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i += sizeof word) {
        memcpy(&word, (const char *)bytes + i, count - i < sizeof word ? count - i : sizeof word);
        saw(word);
    }
}

static inline void saw_device(CUdeviceptr at, size_t bytes) {
    void *host = malloc(bytes);
    CHECK(host);
    to_host(host, at, bytes);
    saw_bytes(host, bytes);
    free(host);
}

static inline void randomize(void *to, size_t bytes) {
    for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
        uint64_t word = next();
        memcpy((char *)to + i, &word, sizeof word);
    }
}

static inline void randomize_device(CUdeviceptr at, size_t bytes) {
    void *host = malloc(bytes);
    CHECK(host);
    randomize(host, bytes);
    to_device(at, host, bytes);
    /* The copy may return before what it staged has arrived, and streams that do not block would not wait. */
    synchronize();
    free(host);
}

/* Memory that lies on both sides of a chunk's end and shares its chunks with no other: what the agent does wrong to one
 * buffer is not made up for by another. */
static inline CUdeviceptr apart(size_t bytes) { return alloc(2 * CHUNK) + CHUNK - bytes / 2; }

static inline CUevent event(void) {
    CUevent made;
    MUST(CU(cuEventCreate, CUevent *, unsigned)(&made, DISABLE_TIMING));
    return made;
}

static inline void record(CUevent event, CUstream stream) {
    MUST(CU(cuEventRecord, CUevent, CUstream)(event, stream));
}

/* What the stream does from now on comes after the event. */
static inline void after(CUstream stream, CUevent event) {
    MUST(CU(cuStreamWaitEvent, CUstream, CUevent, unsigned)(stream, event, 0));
}

static inline void *pinned(size_t bytes) {
    void *host;
    MUST(CU(cuMemHostAlloc, void **, size_t, unsigned)(&host, bytes, 0));
    return host;
}

/* y[i] += a * x[i] over n words, by a kernel. */
static inline void axpy(CUfunction function, CUstream stream, CUdeviceptr y, CUdeviceptr x, uint64_t n, uint32_t a) {
    void *params[] = {&y, &x, &n, &a};
    MUST(CU(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
            void **, void **)(function, 8, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

static inline void set_words(CUdeviceptr at, uint32_t value, size_t words, CUstream stream) {
    MUST(CU(cuMemsetD32Async, CUdeviceptr, unsigned, size_t, CUstream)(at, value, words, stream));
}

static inline void copy_within(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    MUST(CU(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(to, from, bytes, stream));
}

static inline void rounds(int argc, char **argv, void (*round)(void)) {
    CHECK(argc == 3);
    program_state = strtoull(argv[1], NULL, 10);
    for (unsigned left = (unsigned)atoi(argv[2]); left > 0; left--) {
        round();
        printf("%016llx\n", (unsigned long long)program_digest);
    }
}

#endif
