/* rtswap.h: tell rtswap where a job begins and ends. Needs no library: without the rtswap agent in
 * the process (a program run without rtswap) both functions do nothing. On glibc before 2.34 link
 * with -ldl. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef RTSWAP_H
#define RTSWAP_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*rtswap_job_fn)(void);

static inline void rtswap_call_(const char *name, rtswap_job_fn *known, int *asked)
{
    rtswap_job_fn fn;
    if (!__atomic_load_n(asked, __ATOMIC_ACQUIRE)) {
        /* POSIX lets dlsym's result be a function; ISO C has no cast for it. */
        *(void **)(&fn) = dlsym(NULL, name);
        __atomic_store_n(known, fn, __ATOMIC_RELAXED);
        __atomic_store_n(asked, 1, __ATOMIC_RELEASE);
    }
    fn = __atomic_load_n(known, __ATOMIC_RELAXED);
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

/* Ends a job: returns once all its GPU work is done. */
static inline void rtswap_job_end_(void)
{
    static rtswap_job_fn known;
    static int asked;
    rtswap_call_("rtswap_job_end", &known, &asked);
}

#define rtswap_job_begin rtswap_job_begin_
#define rtswap_job_end rtswap_job_end_

#ifdef __cplusplus
}
#endif

#endif
