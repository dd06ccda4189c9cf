/* Each way to come by a driver function. The memory that the function gives shows whose it was. */
#include "probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { BYTES = 3 * MIB, PER_THREAD = 2, LEGACY = 1 };

typedef CUresult (*allocator)(CUdeviceptr *, size_t);
typedef CUresult (*asker)(const char *, void **, int, uint64_t);
typedef CUresult (*asker_v2)(const char *, void **, int, uint64_t, unsigned *);

/* Linked. */
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes);
CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags,
                             unsigned *status);

/* Memory of this function must lie in the arena and come back right. */
static void by(allocator found) {
    CUdeviceptr at;
    CHECK(found);
    MUST(found(&at, BYTES));
    fill(at, BYTES, 1);
    ready(BYTES);
    check(at, BYTES, 1);
    release(at);
}

static void linked(void) {
    start();
    by(cuMemAlloc_v2);
}

static void handle(void) {
    start();
    by((allocator)dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), "cuMemAlloc_v2"));
}

static void other_name(void) {
    start();
    by((allocator)dlsym(dlopen("libcuda.so", RTLD_NOW), "cuMemAlloc_v2"));
}

static void global_handle(void) {
    start();
    by((allocator)dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2"));
}

static void next(void) {
    start();
    by((allocator)dlsym(RTLD_NEXT, "cuMemAlloc_v2"));
}

static void by_default(void) {
    start();
    by((allocator)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
}

/* Drivers give their functions no versions, so that nothing is found: with us no more than without,
 * and libc's own are found as ever. */
static void versioned(void) {
    start();
    CUdeviceptr at = alloc(BYTES);
    ready(BYTES);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *any = dlopen(NULL, RTLD_NOW);
    say("the driver's: %d", dlvsym(driver, "cuMemAlloc_v2", "libcuda.so.1") != NULL);
    say("libc's: %d", dlvsym(any, "memcpy", "GLIBC_2.14") == dlsym(any, "memcpy"));
    say("next: %d", dlvsym(RTLD_NEXT, "memcpy", "GLIBC_2.14") != NULL);
    say("none: %d", dlvsym(RTLD_DEFAULT, "memcpy", "GLIBC_9.99") != NULL);
    release(at);
}

/* Looked up before there is a driver to speak of. */
static void early(void) {
    allocator found = (allocator)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    asker ask = (asker)door("cuGetProcAddress");
    void *also = NULL;
    MUST(ask("cuMemAlloc", &also, 12000, 0));
    start();
    by(found);
    by((allocator)also);
}

static void *neighbour(int flags) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libneighbour.so", getenv("DOORS_FOLDER"));
    void *library = dlopen(path, flags);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return library;
}

static void all_of(void *library) {
    static const char *const ways[] = {"neighbour_alloc", "neighbour_alloc_next",
                                       "neighbour_alloc_default", "neighbour_alloc_handle"};
    for (int i = 0; i < 4; i++) {
        allocator way = (allocator)dlsym(library, ways[i]);
        CUdeviceptr at;
        MUST(way(&at, BYTES));
        fill(at, BYTES, 1);
        ready((size_t)(i + 1) * BYTES);
        check(at, BYTES, 1);
    }
}

static void library(void) {
    start();
    all_of(neighbour(RTLD_NOW | RTLD_LOCAL));
}

static void deepbind(void) {
    start();
    all_of(neighbour(RTLD_NOW | RTLD_DEEPBIND));
}

static void deepbind_lazy(void) {
    start();
    all_of(neighbour(RTLD_LAZY | RTLD_DEEPBIND));
}

/* The library is closed and loaded again between two look-ups: as many are loaded as before. */
static void deepbind_again(void) {
    start();
    void *closed = neighbour(RTLD_NOW | RTLD_LOCAL);
    CHECK(dlsym(closed, "neighbour_alloc"));
    CHECK(dlclose(closed) == 0);
    all_of(neighbour(RTLD_NOW | RTLD_DEEPBIND));
}

static atomic_int looker;
static CUdeviceptr loaded_at;

static void *looks_up(void *driver) {
    looker = (int)syscall(SYS_gettid);
    CHECK(dlsym(driver, "cuMemFree_v2"));
    return NULL;
}

/* Whether a thread of this process sleeps now. */
static int sleeps(int thread) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "r");
    CHECK(stat && fgets(line, sizeof line, stat));
    fclose(stat);
    char *name_end = strrchr(line, ')');
    return name_end && name_end[2] == 'S';
}

/* Under the loader's lock, for which another thread's look-up waits: that thread saw the first of two
 * libraries, and the second is loaded and used before the thread goes on. */
static void loads_another(void) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, looks_up, dlopen("libcuda.so.1", RTLD_NOW)));
    for (int slept = 0, left = 30000; slept < 50; left--) {
        CHECK(left);
        usleep(1000);
        slept = looker && sleeps(looker) ? slept + 1 : 0;
    }
    CHECK(!pthread_detach(thread));
    void *library = neighbour(RTLD_NOW | RTLD_DEEPBIND);
    MUST(((allocator)dlsym(library, "neighbour_alloc"))(&loaded_at, BYTES));
}

static void deepbind_meanwhile(void) {
    char address[32], path[4096];
    start();
    snprintf(address, sizeof address, "%p", (void *)loads_another);
    setenv("DOORS_CONSTRUCTOR", address, 1);
    snprintf(path, sizeof path, "%s/libconstructor.so", getenv("DOORS_FOLDER"));
    CHECK(dlopen(path, RTLD_NOW));
    CHECK(loaded_at);
    fill(loaded_at, BYTES, 1);
    ready(BYTES);
    check(loaded_at, BYTES, 1);
}

/* Whether there is a daemon is seen at the first look-up, and comes out otherwise when CUDA starts. */
static void deepbind_early(void) {
    char *folder = strdup(getenv("RTSWAP_RUNTIME_DIR"));
    setenv("RTSWAP_RUNTIME_DIR", "/nonexistent", 1);
    void *library = neighbour(RTLD_NOW | RTLD_DEEPBIND);
    CHECK(dlsym(library, "neighbour_alloc"));
    setenv("RTSWAP_RUNTIME_DIR", folder, 1);
    free(folder);
    start();
    all_of(library);
}

enum { LOADERS = 4, ROUNDS = 300 };

/* The same library as another file, which the loader takes for another library. */
static void *loads_again_and_again(void *nothing) {
    char path[4096], bytes[1 << 16];
    snprintf(path, sizeof path, "%s/libneighbour.so", getenv("DOORS_FOLDER"));
    FILE *from = fopen(path, "r");
    int copy = memfd_create("neighbour", 0);
    CHECK(from && copy >= 0);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, from)) > 0;) {
        CHECK(write(copy, bytes, got) == (ssize_t)got);
    }
    fclose(from);
    snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
    void *ours = door("cuMemFree_v2");
    for (int round = 0; round < ROUNDS; round++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
        CHECK(library);
        void *(*bound)(void) = (void *(*)(void))dlsym(library, "neighbour_bound");
        if (bound() != ours) fail(__FILE__, __LINE__, "bound past the agent", round);
        CHECK(dlclose(library) == 0);
    }
    close(copy);
    return nothing;
}

static void deepbind_threads(void) {
    pthread_t threads[LOADERS];
    start();
    CUdeviceptr at = alloc(BYTES);
    for (int i = 0; i < LOADERS; i++) {
        CHECK(!pthread_create(&threads[i], NULL, loads_again_and_again, NULL));
    }
    for (int i = 0; i < LOADERS; i++) CHECK(!pthread_join(threads[i], NULL));
    ready(BYTES);
    release(at);
}

/* Functions by cuGetProcAddress, which was itself found in each way. */
static void procaddr(void) {
    void *found = NULL;
    start();
    MUST(((asker)door("cuGetProcAddress"))("cuMemAlloc", &found, 11030, 0));
    by((allocator)found);
}

static void procaddr_v2(void) {
    void *found = NULL;
    unsigned status = 9;
    start();
    MUST(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, &status));
    CHECK(status == 0);
    by((allocator)found);
    /* The status is not wanted. */
    MUST(cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 0, NULL));
    by((allocator)found);
}

static void procaddr_chain(void) {
    void *ask = NULL, *found = NULL;
    start();
    MUST(((asker)door("cuGetProcAddress"))("cuGetProcAddress", &ask, 11030, 0));
    MUST(((asker)ask)("cuMemAlloc", &found, 11030, 0));
    by((allocator)found);
    MUST(((asker)ask)("cuGetProcAddress", &ask, 12000, 0));
    MUST(((asker_v2)ask)("cuMemAlloc", &found, 12000, 0, NULL));
    by((allocator)found);
}

/* For all versions and flags it gives what dlsym gives under the name of that version's form. */
static void procaddr_forms(void) {
    static const struct {
        const char *name;
        int version;
        uint64_t flags;
        const char *form;
    } cases[] = {
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 13000, PER_THREAD, "cuMemAlloc_v2"},
        {"cuMemcpyHtoDAsync", 6050, 0, "cuMemcpyHtoDAsync_v2"},
        {"cuMemcpyHtoDAsync", 12000, 0, "cuMemcpyHtoDAsync_v2"},
        {"cuMemcpyHtoDAsync", 12000, LEGACY, "cuMemcpyHtoDAsync_v2"},
        {"cuMemcpyHtoDAsync", 12000, PER_THREAD, "cuMemcpyHtoDAsync_v2_ptsz"},
        {"cuMemcpyDtoH", 12000, PER_THREAD, "cuMemcpyDtoH_v2_ptds"},
        {"cuLaunchKernel", 4000, 0, "cuLaunchKernel"},
        {"cuLaunchKernel", 7000, PER_THREAD, "cuLaunchKernel_ptsz"},
        {"cuLaunchKernelEx", 11080, 0, "cuLaunchKernelEx"},
        {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"},
        {"cuMemAllocAsync", 11020, PER_THREAD, "cuMemAllocAsync_ptsz"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
        {"cuStreamDestroy", 4000, 0, "cuStreamDestroy_v2"},
        {"cuInit", 2000, 0, "cuInit"},
        {"cuMemCreate", 10020, 0, "cuMemCreate"},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *found = NULL;
        unsigned status = 9;
        CUresult result = cuGetProcAddress_v2(cases[i].name, &found, cases[i].version,
                                              cases[i].flags, &status);
        if (result != SUCCESS || status != 0 || found != door(cases[i].form)) {
            fail(__FILE__, __LINE__, cases[i].form, cases[i].version);
        }
    }
    CUdeviceptr at = alloc(BYTES);
    ready(BYTES);
    release(at);
}

/* What is wrong is answered as by the driver alone, which does not survive NULL for the name. */
static void procaddr_wrong(void) {
    void *found = (void *)1;
    unsigned status = 9;
    start();
    CUdeviceptr at = alloc(BYTES);
    ready(BYTES);
    CUresult result = cuGetProcAddress_v2("cuNoSuchThing", &found, 12000, 0, &status);
    say("unknown: %d %u %d", result, status, found == NULL);
    result = cuGetProcAddress_v2("cuMemAllocAsync", &found, 10000, 0, &status);
    say("too old: %d %u %d", result, status, found == NULL);
    result = cuGetProcAddress_v2("cuMemAlloc", &found, 12000, 77, &status);
    say("flags: %d", result);
    say("no status: %d", cuGetProcAddress_v2("cuNoSuchThing", &found, 12000, 0, NULL));
    say("no symbol: %d", dlsym(RTLD_DEFAULT, "cuNoSuchThing") == NULL);
    say("a complaint: %d", dlerror() != NULL);
    release(at);
}

/* The private tables are the driver's own. */
static void export_table(void) {
    static const unsigned char any[16] = {1, 2, 3};
    const void *table = NULL;
    start();
    CUdeviceptr at = alloc(BYTES);
    ready(BYTES);
    say("table: %d", CU(cuGetExportTable, const void **, const void *)(&table, any));
    release(at);
}

/* Another namespace has a driver of its own, and no preloaded library. */
static void namespace(void) {
    void *driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    CUcontext context;
    CUdeviceptr at;
    MUST(((CUresult(*)(unsigned))dlsym(driver, "cuInit"))(0));
    MUST(((CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0));
    MUST(((CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent"))(context));
    MUST(((allocator)dlsym(driver, "cuMemAlloc_v2"))(&at, BYTES));
    MUST(((CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2"))(at));
}

PROBES({"linked", linked}, {"handle", handle}, {"other_name", other_name},
       {"global_handle", global_handle}, {"next", next}, {"default", by_default},
       {"dlvsym", versioned}, {"early", early}, {"library", library}, {"deepbind", deepbind}, {"deepbind_lazy", deepbind_lazy},
       {"deepbind_again", deepbind_again}, {"deepbind_meanwhile", deepbind_meanwhile},
       {"deepbind_early", deepbind_early}, {"deepbind_threads", deepbind_threads},
       {"procaddr", procaddr}, {"procaddr_v2", procaddr_v2}, {"procaddr_chain", procaddr_chain},
       {"procaddr_forms", procaddr_forms}, {"procaddr_wrong", procaddr_wrong},
       {"export_table", export_table}, {"namespace", namespace})
