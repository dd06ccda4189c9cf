/* Copies and sets: each form is called at a closed gate, on memory that is not there. */
#include "probe.h"

enum { BYTES = 3 * MIB, WIDTH = 1000, PITCH = 1024, HEIGHT = 2000 };

static CUdeviceptr a, b;
static unsigned char *host;
static CUstream s;

static void set_up(void) {
    start();
    a = alloc(BYTES);
    b = alloc(BYTES);
    host = patterned(BYTES, 1);
    s = stream();
    fill(a, BYTES, 1);
    fill(b, BYTES, 2);
    synchronize();
}

/* Runs `call` for each of the names as `form`, on memory that is out. */
#define EACH(forms, call)                                                                   \
    for (size_t form_ = 0; form_ < sizeof forms / sizeof *forms; form_++) {                 \
        const char *form = forms[form_];                                                    \
        ready(2 * BYTES);                                                                   \
        MUST(call);                                                                         \
        called();                                                                           \
        synchronize();                                                                      \
        verify();                                                                           \
    }

static void a_is_b(void) {
    check(a, BYTES, 1);
    check(b, BYTES, 1);
    fill(b, BYTES, 2);
}

static void dtod(void) {
    static const char *const forms[] = {"cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds", "cuMemcpy",
                                        "cuMemcpy_ptds"};
    void (*verify)(void) = a_is_b;
    set_up();
    EACH(forms, CU_NAMED(form, CUdeviceptr, CUdeviceptr, size_t)(b, a, BYTES));
}

static void dtod_async(void) {
    static const char *const forms[] = {"cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz",
                                        "cuMemcpyAsync", "cuMemcpyAsync_ptsz"};
    void (*verify)(void) = a_is_b;
    set_up();
    EACH(forms, CU_NAMED(form, CUdeviceptr, CUdeviceptr, size_t, CUstream)(b, a, BYTES, s));
}

static void peer(void) {
    static const char *const forms[] = {"cuMemcpyPeer", "cuMemcpyPeer_ptds"};
    void (*verify)(void) = a_is_b;
    CUcontext here;
    set_up();
    MUST(CU(cuCtxGetCurrent, CUcontext *)(&here));
    EACH(forms, CU_NAMED(form, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)(
                    b, here, a, here, BYTES));
}

static void peer_async(void) {
    static const char *const forms[] = {"cuMemcpyPeerAsync", "cuMemcpyPeerAsync_ptsz"};
    void (*verify)(void) = a_is_b;
    CUcontext here;
    set_up();
    MUST(CU(cuCtxGetCurrent, CUcontext *)(&here));
    EACH(forms, CU_NAMED(form, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)(
                    b, here, a, here, BYTES, s));
}

static void b_is_host(void) {
    check(b, BYTES, 1);
    fill(b, BYTES, 2);
}

static void htod(void) {
    static const char *const forms[] = {"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"};
    void (*verify)(void) = b_is_host;
    set_up();
    EACH(forms, CU_NAMED(form, CUdeviceptr, const void *, size_t)(b, host, BYTES));
}

static void htod_async(void) {
    static const char *const forms[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz"};
    void (*verify)(void) = b_is_host;
    set_up();
    EACH(forms, CU_NAMED(form, CUdeviceptr, const void *, size_t, CUstream)(b, host, BYTES, s));
}

static void host_is_b(void) {
    check_host(host, BYTES, 2);
    memset(host, 0, BYTES);
}

static void dtoh(void) {
    static const char *const forms[] = {"cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"};
    void (*verify)(void) = host_is_b;
    set_up();
    EACH(forms, CU_NAMED(form, void *, CUdeviceptr, size_t)(host, b, BYTES));
}

static void dtoh_async(void) {
    static const char *const forms[] = {"cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"};
    void (*verify)(void) = host_is_b;
    set_up();
    EACH(forms, CU_NAMED(form, void *, CUdeviceptr, size_t, CUstream)(host, b, BYTES, s));
}

/* CUDA_MEMCPY2D, CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER. */
enum { HOST = 1, DEVICE = 2 };
struct side {
    size_t x, y;
    unsigned type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch;
};
struct copy2d {
    struct side from, to;
    size_t width, height;
};
struct side3d {
    size_t x, y, z, lod;
    unsigned type;
    const void *host;
    CUdeviceptr device;
    CUarray array;
    /* Of CUDA_MEMCPY3D_PEER; elsewhere it is reserved. */
    CUcontext context;
    size_t pitch, height;
};
struct copy3d {
    struct side3d from, to;
    size_t width, height, depth;
};

/* The bytes within the rows are a's, those between them b's own. */
static void rows_are_a(void) {
    unsigned char *back = malloc(BYTES);
    to_host(back, b, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        int within = i < (size_t)PITCH * HEIGHT && i % PITCH < WIDTH;
        CHECK(back[i] == pattern(within ? 1 : 2, i));
    }
    free(back);
    fill(b, BYTES, 2);
}

static struct copy2d rows(void) {
    return (struct copy2d){.from = {.type = DEVICE, .device = a, .pitch = PITCH},
                           .to = {.type = DEVICE, .device = b, .pitch = PITCH},
                           .width = WIDTH,
                           .height = HEIGHT};
}

static void flat(void) {
    static const char *const forms[] = {"cuMemcpy2D_v2", "cuMemcpy2D_v2_ptds",
                                        "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy2d copy = rows();
    EACH(forms, CU_NAMED(form, const struct copy2d *)(&copy));
}

static void flat_async(void) {
    static const char *const forms[] = {"cuMemcpy2DAsync_v2", "cuMemcpy2DAsync_v2_ptsz"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy2d copy = rows();
    EACH(forms, CU_NAMED(form, const struct copy2d *, CUstream)(&copy, s));
}

static struct copy3d layers(void) {
    return (struct copy3d){
        .from = {.type = DEVICE, .device = a, .pitch = PITCH, .height = HEIGHT / 2},
        .to = {.type = DEVICE, .device = b, .pitch = PITCH, .height = HEIGHT / 2},
        .width = WIDTH,
        .height = HEIGHT / 2,
        .depth = 2};
}

static void deep(void) {
    static const char *const forms[] = {"cuMemcpy3D_v2", "cuMemcpy3D_v2_ptds"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy3d copy = layers();
    EACH(forms, CU_NAMED(form, const struct copy3d *)(&copy));
}

static void deep_async(void) {
    static const char *const forms[] = {"cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy3d copy = layers();
    EACH(forms, CU_NAMED(form, const struct copy3d *, CUstream)(&copy, s));
}

static struct copy3d layers_here(void) {
    CUcontext here;
    struct copy3d copy = layers();
    MUST(CU(cuCtxGetCurrent, CUcontext *)(&here));
    copy.from.context = copy.to.context = here;
    return copy;
}

static void deep_peer(void) {
    static const char *const forms[] = {"cuMemcpy3DPeer", "cuMemcpy3DPeer_ptds"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy3d copy = layers_here();
    EACH(forms, CU_NAMED(form, const struct copy3d *)(&copy));
}

static void deep_peer_async(void) {
    static const char *const forms[] = {"cuMemcpy3DPeerAsync", "cuMemcpy3DPeerAsync_ptsz"};
    void (*verify)(void) = rows_are_a;
    set_up();
    struct copy3d copy = layers_here();
    EACH(forms, CU_NAMED(form, const struct copy3d *, CUstream)(&copy, s));
}

/* The driver is asked about kinds of memory that nobody knows, and answers as without rtswap. */
static void unknown(void) {
    static const unsigned kinds[] = {0, 5, 77, 0x80000000u, ~0u};
    static const char *const forms[] = {"cuMemcpy3D_v2", "cuMemcpy3DPeer"};
    set_up();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct copy2d flat = rows();
        struct copy3d deep = layers();
        flat.to.type = deep.to.type = kinds[i];
        flat.from.type = deep.from.type = kinds[i];
        ready(2 * BYTES);
        say("%x: %d", kinds[i], CU(cuMemcpy2D_v2, const struct copy2d *)(&flat));
        CHECK(flat.to.type == kinds[i] && flat.from.type == kinds[i]);
        for (int form = 0; form < 2; form++) {
            say("%s: %d", forms[form], CU_NAMED(forms[form], const struct copy3d *)(&deep));
        }
        check(b, BYTES, 2);
    }
}

static unsigned set_bits;

/* Every word of b holds the value. */
static void b_is_set(void) {
    uint32_t *back = malloc(BYTES), value = 0;
    for (unsigned at = 0; at < 32; at += set_bits) {
        value |= (set_bits == 8 ? 0x5au : set_bits == 16 ? 0x1234u : 0xdeadbeefu) << at;
    }
    to_host(back, b, BYTES);
    for (size_t i = 0; i < BYTES / 4; i++) CHECK(back[i] == value);
    free(back);
    fill(b, BYTES, 2);
    check(a, BYTES, 1);
}

static void set(void) {
    static const char *const bytes[] = {"cuMemsetD8_v2", "cuMemsetD8_v2_ptds"};
    static const char *const shorts[] = {"cuMemsetD16_v2", "cuMemsetD16_v2_ptds"};
    static const char *const words[] = {"cuMemsetD32_v2", "cuMemsetD32_v2_ptds"};
    void (*verify)(void) = b_is_set;
    set_up();
    set_bits = 8;
    EACH(bytes, CU_NAMED(form, CUdeviceptr, unsigned char, size_t)(b, 0x5a, BYTES));
    set_bits = 16;
    EACH(shorts, CU_NAMED(form, CUdeviceptr, unsigned short, size_t)(b, 0x1234, BYTES / 2));
    set_bits = 32;
    EACH(words, CU_NAMED(form, CUdeviceptr, unsigned, size_t)(b, 0xdeadbeef, BYTES / 4));
}

static void set_async(void) {
    static const char *const bytes[] = {"cuMemsetD8Async", "cuMemsetD8Async_ptsz"};
    static const char *const shorts[] = {"cuMemsetD16Async", "cuMemsetD16Async_ptsz"};
    static const char *const words[] = {"cuMemsetD32Async", "cuMemsetD32Async_ptsz"};
    void (*verify)(void) = b_is_set;
    set_up();
    set_bits = 8;
    EACH(bytes, CU_NAMED(form, CUdeviceptr, unsigned char, size_t, CUstream)(b, 0x5a, BYTES, s));
    set_bits = 16;
    EACH(shorts,
         CU_NAMED(form, CUdeviceptr, unsigned short, size_t, CUstream)(b, 0x1234, BYTES / 2, s));
    set_bits = 32;
    EACH(words,
         CU_NAMED(form, CUdeviceptr, unsigned, size_t, CUstream)(b, 0xdeadbeef, BYTES / 4, s));
}

/* Only the rows are set. */
static void rows_are_set(void) {
    unsigned char *back = malloc(BYTES);
    to_host(back, b, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        int within = i < (size_t)PITCH * HEIGHT && i % PITCH < WIDTH;
        CHECK(back[i] == (within ? 0x77 : pattern(2, i)));
    }
    free(back);
    fill(b, BYTES, 2);
}

static void set_rows(void) {
    static const char *const bytes[] = {"cuMemsetD2D8_v2", "cuMemsetD2D8_v2_ptds"};
    static const char *const shorts[] = {"cuMemsetD2D16_v2", "cuMemsetD2D16_v2_ptds"};
    static const char *const words[] = {"cuMemsetD2D32_v2", "cuMemsetD2D32_v2_ptds"};
    void (*verify)(void) = rows_are_set;
    set_up();
    EACH(bytes, CU_NAMED(form, CUdeviceptr, size_t, unsigned char, size_t, size_t)(
                    b, PITCH, 0x77, WIDTH, HEIGHT));
    EACH(shorts, CU_NAMED(form, CUdeviceptr, size_t, unsigned short, size_t, size_t)(
                     b, PITCH, 0x7777, WIDTH / 2, HEIGHT));
    EACH(words, CU_NAMED(form, CUdeviceptr, size_t, unsigned, size_t, size_t)(
                    b, PITCH, 0x77777777, WIDTH / 4, HEIGHT));
}

static void set_rows_async(void) {
    static const char *const bytes[] = {"cuMemsetD2D8Async", "cuMemsetD2D8Async_ptsz"};
    static const char *const shorts[] = {"cuMemsetD2D16Async", "cuMemsetD2D16Async_ptsz"};
    static const char *const words[] = {"cuMemsetD2D32Async", "cuMemsetD2D32Async_ptsz"};
    void (*verify)(void) = rows_are_set;
    set_up();
    EACH(bytes, CU_NAMED(form, CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)(
                    b, PITCH, 0x77, WIDTH, HEIGHT, s));
    EACH(shorts, CU_NAMED(form, CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream)(
                     b, PITCH, 0x7777, WIDTH / 2, HEIGHT, s));
    EACH(words, CU_NAMED(form, CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream)(
                    b, PITCH, 0x77777777, WIDTH / 4, HEIGHT, s));
}

PROBES({"htod", htod}, {"htod_async", htod_async}, {"dtoh", dtoh}, {"dtoh_async", dtoh_async},
       {"dtod", dtod}, {"dtod_async", dtod_async}, {"peer", peer}, {"peer_async", peer_async},
       {"2d", flat}, {"2d_async", flat_async}, {"3d", deep}, {"3d_async", deep_async},
       {"3d_peer", deep_peer}, {"3d_peer_async", deep_peer_async},
       {"unknown", unknown}, {"set", set},
       {"set_async", set_async}, {"set_2d", set_rows}, {"set_2d_async", set_rows_async})
