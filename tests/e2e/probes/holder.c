/* Holds GPU memory as it is told on standard input, each line answered when it is done:
 *   alloc N     cuMemAlloc of N granules of 2 MiB              create N   cuMemCreate
 *   free        the youngest object of those is given back
 *   churn N     16 threads allocate and free N times each
 * Says `pid N` first, as it numbers itself, and `done` after each.
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { GRANULE = 2 << 20, MOST = 4096, THREADS = 16 };

struct allocation {
    int type, handle_types, location_type, location_id;
    void *security;
    unsigned char flags[8];
};
typedef unsigned long long handle;

CUresult cuMemCreate(handle *made, size_t bytes, const struct allocation *of, unsigned long long flags);
CUresult cuMemRelease(handle made);

static struct { int is_handle; unsigned long long name; } held[MOST];
static int count;
static CUcontext context;
static int rounds;

static void *churn(void *argument) {
    unsigned seed = (unsigned)(size_t)argument * 7919 + 1;
    MUST(cuCtxSetCurrent(context));
    for (int round = 0; round < rounds; round++) {
        CUdeviceptr address;
        seed = seed * 1103515245 + 12345;
        size_t bytes = 1 + (seed >> 8) % 100000;
        MUST(cuMemAlloc_v2(&address, bytes));
        MUST(cuMemFree_v2(address));
    }
    return NULL;
}

int main(void) {
    const struct allocation of = {.type = 1, .location_type = 1};
    char line[64];
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int number = 0;
        char word[16];
        if (sscanf(line, "%15s %d", word, &number) < 1 || count == MOST) return 2;
        if (strcmp(word, "alloc") == 0) {
            held[count].is_handle = 0;
            MUST(cuMemAlloc_v2(&held[count++].name, (size_t)number * GRANULE));
        } else if (strcmp(word, "create") == 0) {
            held[count].is_handle = 1;
            MUST(cuMemCreate(&held[count++].name, (size_t)number * GRANULE, &of, 0));
        } else if (strcmp(word, "free") == 0 && count > 0) {
            count--;
            MUST(held[count].is_handle ? cuMemRelease(held[count].name) : cuMemFree_v2(held[count].name));
        } else if (strcmp(word, "churn") == 0) {
            pthread_t threads[THREADS];
            rounds = number;
            for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, churn, (void *)i);
            for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        } else {
            return 2;
        }
        printf("done\n");
        fflush(stdout);
    }
    return 0;
}
