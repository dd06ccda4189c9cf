/* The agent starts while the loader is at work: the driver is initialised by the constructor of a
 * library that is being loaded, under the loader's lock, and by the program's own constructor.
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
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    if (!dlopen(name, RTLD_NOW)) fprintf(stderr, "%s\n", dlerror());
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec - before.tv_sec < 3);
    life_start();
    life_round();
}

PROBES({"in_constructor", in_constructor}, {"in_dlopen", in_dlopen})
