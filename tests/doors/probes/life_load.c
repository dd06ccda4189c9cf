/* The agent starts, or meets a thread, while the loader is at work: the driver is initialised by the
 * constructor of a library that is being loaded, under the loader's lock, and by the program's own
 * constructor; and a library's constructor waits for a thread that works on the GPU.
 */
#include "life.h"

__attribute__((constructor)) static void loaded(void) {
    if (getenv("LIFE_AT_LOAD")) MUST(CU(cuInit, unsigned)(0));
}

static void in_constructor(void) {
    if (!getenv("LIFE_AT_LOAD")) {
        setenv("LIFE_AT_LOAD", "1", 1);
        execl("/proc/self/exe", "life_load", "in_constructor", NULL);
    }
    life_start();
    life_round();
}

static void in_dlopen(void) {
    char name[4096];
    snprintf(name, sizeof name, "%s/libinit.so", getenv("LIFE_FOLDER"));
    if (!dlopen(name, RTLD_NOW)) fprintf(stderr, "%s\n", dlerror());
    life_start();
    life_round();
}

static CUresult (*set_current)(CUcontext);
static CUresult (*set_words)(CUdeviceptr, unsigned, size_t);

static void *works(void *nothing) {
    MUST(set_current(life_context));
    MUST(set_words(life_one, 1, WORDS));
    return nothing;
}

static void thread_of_constructor(void) {
    char name[4096], body[32];
    life_start();
    life_add();
    set_current = CU(cuCtxSetCurrent, CUcontext);
    set_words = CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t);
    snprintf(body, sizeof body, "%p", (void *)works);
    setenv("LIFE_BODY", body, 1);
    snprintf(name, sizeof name, "%s/libwaits.so", getenv("LIFE_FOLDER"));
    CHECK(dlopen(name, RTLD_NOW));
    life_round();
}

PROBES({"in_constructor", in_constructor}, {"in_dlopen", in_dlopen},
       {"thread_of_constructor", thread_of_constructor})
