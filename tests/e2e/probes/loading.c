/* A library whose constructor works on the GPU, and so under the loader's lock.
 *
 * loading LIBRARY
 *
 * Fills 8 MiB, and for a line on standard input loads LIBRARY, whose constructor is built from this
 * file too (-DLIBRARY): it has the program read the 8 MiB back and print {"wrong_words":N}. Then the
 * program ends.
 */
#ifdef LIBRARY

#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void) {
    void *body;
    if (sscanf(getenv("LOADING_BODY"), "%p", &body) != 1) abort();
    ((void (*)(void))body)();
}

#else

#include "cuda.h"

#include <dlfcn.h>
#include <unistd.h>

enum { WORDS = 8 << 18 };

static uint32_t host[WORDS];
static CUdeviceptr buffer;

static void body(void) {
    int wrong = 0;
    printf("loading\n");
    fflush(stdout);
    MUST(cuMemcpyDtoH_v2(host, buffer, sizeof host));
    for (uint32_t i = 0; i < WORDS; i++) wrong += host[i] != 5 * i + 1;
    printf("{\"wrong_words\":%d}\n", wrong);
    fflush(stdout);
}

int main(int argc, char **argv) {
    char line, address[32];
    if (argc != 2) return 2;
    snprintf(address, sizeof address, "%p", (void *)body);
    setenv("LOADING_BODY", address, 1);
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&buffer, sizeof host));
    for (uint32_t i = 0; i < WORDS; i++) host[i] = 5 * i + 1;
    MUST(cuMemcpyHtoD_v2(buffer, host, sizeof host));
    for (uint32_t i = 0; i < WORDS; i++) host[i] = 0;
    printf("ready\n");
    fflush(stdout);
    if (read(0, &line, 1) != 1) return 3;
    if (!dlopen(argv[1], RTLD_NOW)) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    return 0;
}

#endif
