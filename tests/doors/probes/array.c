/* Copies to and from arrays: each form is called at a closed gate, while what it copies to or from is not there. An array
 * itself stays. */
#include "probe.h"

enum { BYTES = 3 * MIB, WIDTH = 32768, AT = 512, LENGTH = WIDTH - AT, UNSIGNED_INT8 = 1 };

struct shape {
    size_t width, height;
    unsigned format, channels;
};

static CUdeviceptr a;
static CUarray x, y;
static unsigned char *host;
static CUstream s;

static void x_from_host(unsigned seed) {
    unsigned char *bytes = patterned(WIDTH, seed);
    MUST(CU(cuMemcpyHtoA_v2, CUarray, size_t, const void *, size_t)(x, 0, bytes, WIDTH));
    free(bytes);
}

static void set_up(void) {
    struct shape shape = {.width = WIDTH, .format = UNSIGNED_INT8, .channels = 1};
    start();
    a = alloc(BYTES);
    host = patterned(WIDTH, 1);
    s = stream();
    MUST(CU(cuArrayCreate_v2, CUarray *, const struct shape *)(&x, &shape));
    MUST(CU(cuArrayCreate_v2, CUarray *, const struct shape *)(&y, &shape));
    fill(a, BYTES, 1);
    x_from_host(1);
    synchronize();
}

/* Runs `call` for each of the names as `form`, with the memory out, and looks at what it wrote. */
#define EACH(forms, call, verify)                                                           \
    for (size_t form_ = 0; form_ < sizeof forms / sizeof *forms; form_++) {                 \
        const char *form = forms[form_];                                                    \
        ready(BYTES);                                                                       \
        MUST(call);                                                                         \
        called();                                                                           \
        synchronize();                                                                      \
        verify;                                                                             \
    }

/* The array holds, from AT on, the beginning of pattern 1; then it is something else again. */
static void holds(CUarray array) {
    unsigned char *back = malloc(LENGTH);
    CHECK(back);
    MUST(CU(cuMemcpyAtoH_v2, void *, CUarray, size_t, size_t)(back, array, AT, LENGTH));
    check_host(back, LENGTH, 1);
    memset(back, 0, LENGTH);
    MUST(CU(cuMemcpyHtoA_v2, CUarray, size_t, const void *, size_t)(array, AT, back, LENGTH));
    free(back);
}

static void host_holds(void) {
    check_host(host, LENGTH, 1);
    memset(host, 0, WIDTH);
}

static void from_host(void) {
    static const char *const forms[] = {"cuMemcpyHtoA_v2", "cuMemcpyHtoA_v2_ptds"};
    static const char *const ordered[] = {"cuMemcpyHtoAAsync_v2", "cuMemcpyHtoAAsync_v2_ptsz"};
    set_up();
    EACH(forms, CU_NAMED(form, CUarray, size_t, const void *, size_t)(x, AT, host, LENGTH), holds(x));
    EACH(ordered,
         CU_NAMED(form, CUarray, size_t, const void *, size_t, CUstream)(x, AT, host, LENGTH, s),
         holds(x));
}

static void to_the_host(void) {
    static const char *const forms[] = {"cuMemcpyAtoH_v2", "cuMemcpyAtoH_v2_ptds"};
    static const char *const ordered[] = {"cuMemcpyAtoHAsync_v2", "cuMemcpyAtoHAsync_v2_ptsz"};
    set_up();
    memset(host, 0, WIDTH);
    EACH(forms, CU_NAMED(form, void *, CUarray, size_t, size_t)(host, x, 0, LENGTH), host_holds());
    EACH(ordered, CU_NAMED(form, void *, CUarray, size_t, size_t, CUstream)(host, x, 0, LENGTH, s),
         host_holds());
}

static void from_memory(void) {
    static const char *const forms[] = {"cuMemcpyDtoA_v2", "cuMemcpyDtoA_v2_ptds"};
    set_up();
    EACH(forms, CU_NAMED(form, CUarray, size_t, CUdeviceptr, size_t)(x, AT, a, LENGTH), holds(x));
}

/* The memory holds the array's bytes, and behind them its own; then its own again. */
static void memory_holds(void) {
    unsigned char *back = malloc(BYTES);
    CHECK(back);
    to_host(back, a, BYTES);
    for (size_t i = 0; i < BYTES; i++) CHECK(back[i] == pattern(i < LENGTH ? 3 : 1, i));
    free(back);
    fill(a, BYTES, 1);
}

static void to_memory(void) {
    static const char *const forms[] = {"cuMemcpyAtoD_v2", "cuMemcpyAtoD_v2_ptds"};
    set_up();
    x_from_host(3);
    EACH(forms, CU_NAMED(form, CUdeviceptr, CUarray, size_t, size_t)(a, x, 0, LENGTH),
         memory_holds());
}

static void between(void) {
    static const char *const forms[] = {"cuMemcpyAtoA_v2", "cuMemcpyAtoA_v2_ptds"};
    set_up();
    EACH(forms, CU_NAMED(form, CUarray, size_t, CUarray, size_t, size_t)(y, AT, x, 0, LENGTH),
         holds(y));
}

PROBES({"htoa", from_host}, {"atoh", to_the_host}, {"dtoa", from_memory}, {"atod", to_memory},
       {"atoa", between})
