/* Asks CUDA and NVML how much memory GPU 0 has, and NVML about each other GPU, as JSON. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *at, size_t bytes);
int cuMemGetInfo_v2(size_t *left, size_t *total);
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device);

typedef void *device;
typedef struct {
    unsigned long long total, free, used;
} memory_v1;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

#define MUST(call)                                        \
    do {                                                  \
        int result = (int)(call);                         \
        if (result) {                                     \
            fprintf(stderr, "%s: %d\n", #call, result);   \
            exit(1);                                      \
        }                                                 \
    } while (0)

static void *library;

static void *nvml(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return found;
}

static void told(const char *name, device which) {
    memory_v1 one;
    memory_v2 two = {.version = sizeof two | 2u << 24};
    MUST(((unsigned (*)(device, memory_v1 *))nvml("nvmlDeviceGetMemoryInfo"))(which, &one));
    MUST(((unsigned (*)(device, memory_v2 *))nvml("nvmlDeviceGetMemoryInfo_v2"))(which, &two));
    printf(",\"%s\":[%llu,%llu,%llu],\"%s v2\":[%llu,%llu,%llu]", name, one.total, one.free, one.used,
           name, two.total, two.free, two.used);
}

/* The handle of the GPU or the MIG instance with this UUID. */
static device handle_of(const unsigned char uuid[16]) {
    unsigned (*find)(const char *, device *) = nvml("nvmlDeviceGetHandleByUUID");
    static const char *const kinds[] = {"GPU", "MIG"};
    for (int kind = 0; kind < 2; kind++) {
        char text[64];
        int length = sprintf(text, "%s-", kinds[kind]);
        for (int i = 0; i < 16; i++) {
            const char *hyphen = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
            length += sprintf(text + length, "%s%02x", hyphen, uuid[i]);
        }
        device found;
        if (find(text, &found) == 0) return found;
    }
    fprintf(stderr, "NVML knows no such GPU\n");
    exit(1);
}

int main(void) {
    void *context;
    unsigned long long at;
    size_t left, total;
    unsigned char uuid[16];
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&at, 3 << 20));
    MUST(cuDeviceGetUuid_v2(uuid, 0));
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return 1;
    MUST(((unsigned (*)(void))nvml("nvmlInit_v2"))());
    device ours = handle_of(uuid);
    MUST(cuMemGetInfo_v2(&left, &total));
    printf("{\"cuda\":[%zu,%zu,%zu]", total, left, total - left);
    told("nvml", ours);
    unsigned count;
    MUST(((unsigned (*)(unsigned *))nvml("nvmlDeviceGetCount_v2"))(&count));
    for (unsigned index = 0; index < count; index++) {
        device other;
        char name[32];
        MUST(((unsigned (*)(unsigned, device *))nvml("nvmlDeviceGetHandleByIndex_v2"))(index, &other));
        sprintf(name, "gpu %u", index);
        told(name, other);
    }
    printf("}\n");
    return 0;
}
