/* rtswap.h: tell rtswap where a job begins and ends, and what kernels only read. Needs no library:
 * without the rtswap agent in the process (a program run without rtswap) the functions do nothing. On glibc before 2.34 link
 * with -ldl. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef RTSWAP_H
#define RTSWAP_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*rtswap_job_fn)(void);
typedef void (*rtswap_named_fn)(const char *);
typedef void (*rtswap_hint_fn)(const void *, size_t);

static inline rtswap_job_fn rtswap_find_(const char *name, rtswap_job_fn *known, int *asked)
{
    rtswap_job_fn fn;
    if (!__atomic_load_n(asked, __ATOMIC_ACQUIRE)) {
        /* POSIX lets dlsym's result be a function; ISO C has no cast for it. */
        *(void **)(&fn) = dlsym(NULL, name);
        __atomic_store_n(known, fn, __ATOMIC_RELAXED);
        __atomic_store_n(asked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(known, __ATOMIC_RELAXED);
}

static inline void rtswap_call_(const char *name, rtswap_job_fn *known, int *asked)
{
    rtswap_job_fn fn = rtswap_find_(name, known, asked);
    if (fn)
        fn();
}

/* Begins a job on the GPU of the current context: returns once it may run, its memory in place.
 * Begins may nest; the outermost counts. */
static inline void rtswap_job_begin_(void)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_call_("rtswap_job_begin", &known, &asked);
}

/* As rtswap_job_begin, for a process with several kinds of jobs: `name` (1 to 63 of A-Z a-z 0-9 . _ -)
 * says which this one is, so that `rtswapctl profile` measures each by itself. The name of the
 * outermost begin counts. To the daemon all jobs of a process are one task's. */
static inline void rtswap_job_begin_named_(const char *name)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_job_fn fn = rtswap_find_("rtswap_job_begin_named", &known, &asked);
    if (fn)
        ((rtswap_named_fn)fn)(name);
    else
        /* An agent from before there were names. */
        rtswap_job_begin_();
}

/* Ends a job: returns once all its GPU work is done. */
static inline void rtswap_job_end_(void)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_call_("rtswap_job_end", &known, &asked);
}

/* Says that the program's kernels, and what they launch, write none of these bytes from their next
 * launch on until the memory is freed: weights after loading, for instance. What was swapped out once
 * is then not copied out again. `ptr` is a device pointer of cuMemAlloc or cudaMalloc, or
 * one within; copies, sets and graphs may go on writing there. A kernel that does write breaks what
 * is said: what it wrote may be lost. Chunks count whole: hints are of use for memory of many times
 * their size, and in chunks shared with memory that has none they are not. */
static inline void rtswap_hint_read_only_(const void *ptr, size_t bytes)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_job_fn fn = rtswap_find_("rtswap_hint_read_only", &known, &asked);
    if (fn)
        ((rtswap_hint_fn)fn)(ptr, bytes);
}

/* Takes back what was said of these bytes: from their next launch on kernels may write there. To be
 * called before memory goes back to an allocator of the program's own, which gives it to others. */
static inline void rtswap_hint_writable_(const void *ptr, size_t bytes)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_job_fn fn = rtswap_find_("rtswap_hint_writable", &known, &asked);
    if (fn)
        ((rtswap_hint_fn)fn)(ptr, bytes);
}

#define rtswap_job_begin rtswap_job_begin_
#define rtswap_job_begin_named rtswap_job_begin_named_
#define rtswap_job_end rtswap_job_end_
#define rtswap_hint_read_only rtswap_hint_read_only_
#define rtswap_hint_writable rtswap_hint_writable_

#ifdef __cplusplus
}
#endif

#endif
