/* A program with a dlsym of its own, as debuggers and allocators bring one: all look-ups come here. */
#include "life.h"

static int looked_up;

void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    /* The oldest version of each architecture. */
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    CHECK(next && next != dlsym);
    looked_up++;
    return next(handle, name);
}

static void own(void) {
    life_start();
    CHECK(looked_up > 0 && dlsym(RTLD_DEFAULT, "no_such_function_anywhere") == NULL);
    life_round();
}

PROBES({"own", own})
