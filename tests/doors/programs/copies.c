/* Rows and layers between pitched memory, arrays and the host. */
#include "program.h"

enum { WIDTH = 200, HEIGHT = 12, DEPTH = 3, HOST = 1, DEVICE = 2, ARRAY = 3, UNSIGNED_INT8 = 1 };

struct side {
    size_t x, y;
    unsigned type;
    void *host;
    CUdeviceptr device;
    CUarray array;
    size_t pitch;
};
struct rows {
    struct side from, to;
    size_t width, height;
};
struct side3d {
    size_t x, y, z, level;
    unsigned type;
    void *host;
    CUdeviceptr device;
    CUarray array;
    void *reserved;
    size_t pitch, height;
};
struct layers {
    struct side3d from, to;
    size_t width, height, depth;
};
struct array3d {
    size_t width, height, depth;
    unsigned format, channels, flags;
};

static CUdeviceptr pitched, other;
static size_t pitch;
static CUarray array;
static CUstream on;
static unsigned char *host;

static struct side place(unsigned type) {
    struct side side = {.type = type, .x = below(WIDTH / 2), .y = below(HEIGHT / 2)};
    if (type == HOST) side.host = host, side.pitch = WIDTH;
    if (type == DEVICE) side.device = below(2) ? pitched : other, side.pitch = pitch;
    if (type == ARRAY) side.array = array;
    return side;
}

static void copy_rows(void) {
    /* Half of the width and the height, from anywhere to anywhere else. */
    unsigned from = HOST + below(2), to = HOST + below(2);
    if (from == HOST && to == HOST) to = DEVICE;
    struct rows rows = {place(from), place(to), WIDTH / 2, HEIGHT / 2};
    if (from == to && rows.from.device == rows.to.device) rows.to.device = rows.from.device == pitched ? other : pitched;
    if (below(2))
        MUST(CU(cuMemcpy2D_v2, const struct rows *)(&rows));
    else
        MUST(CU(cuMemcpy2DAsync_v2, const struct rows *, CUstream)(&rows, on));
    wait_for(on);
    synchronize();
}

static struct side3d place3d(unsigned type) {
    struct side3d side = {.type = type, .x = below(WIDTH / 2), .y = below(HEIGHT / 2)};
    if (type == HOST) side.host = host, side.pitch = WIDTH, side.height = HEIGHT;
    if (type == DEVICE) side.device = pitched, side.pitch = pitch, side.height = HEIGHT;
    if (type == ARRAY) side.array = array, side.z = below(DEPTH);
    return side;
}

static void copy_layers(void) {
    unsigned from = HOST + below(3), to = from == ARRAY ? HOST + below(2) : ARRAY;
    struct layers layers = {place3d(from), place3d(to), WIDTH / 2, HEIGHT / 2, 1};
    if (below(2))
        MUST(CU(cuMemcpy3D_v2, const struct layers *)(&layers));
    else
        MUST(CU(cuMemcpy3DAsync_v2, const struct layers *, CUstream)(&layers, on));
    wait_for(on);
    synchronize();
}

static void round_of(void) {
    randomize(host, WIDTH * HEIGHT);
    for (unsigned left = 4; left > 0; left--) {
        switch (below(4)) {
        case 0:
            MUST(CU(cuMemsetD2D8_v2, CUdeviceptr, size_t, unsigned char, size_t, size_t)(
                pitched + below(WIDTH / 2), pitch, (unsigned char)next(), WIDTH / 2, HEIGHT));
            synchronize();
            break;
        case 1:
            MUST(CU(cuMemsetD2D32Async, CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream)(
                other, pitch, (unsigned)next(), 1 + below(WIDTH / 4), HEIGHT, on));
            wait_for(on);
            break;
        case 2:
            copy_layers();
            break;
        default:
            copy_rows();
        }
    }
    saw_bytes(host, WIDTH * HEIGHT);
    saw_device(pitched, pitch * HEIGHT);
    saw_device(other, pitch * HEIGHT);
}

int main(int argc, char **argv) {
    const struct array3d shape = {WIDTH, HEIGHT, DEPTH, UNSIGNED_INT8, 1, 0};
    start();
    MUST(CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(&pitched, &pitch, WIDTH, HEIGHT, 4));
    size_t same;
    MUST(CU(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned)(&other, &same, WIDTH, HEIGHT, 4));
    CHECK(same == pitch);
    MUST(CU(cuArray3DCreate_v2, CUarray *, const struct array3d *)(&array, &shape));
    fill(pitched, pitch * HEIGHT, 1);
    fill(other, pitch * HEIGHT, 2);
    host = pinned(WIDTH * HEIGHT);
    /* An array begins with anything. */
    unsigned char *layers = patterned(WIDTH * HEIGHT * DEPTH, 3);
    struct layers all = {{.type = HOST, .host = layers, .pitch = WIDTH, .height = HEIGHT},
                         {.type = ARRAY, .array = array},
                         WIDTH,
                         HEIGHT,
                         DEPTH};
    MUST(CU(cuMemcpy3D_v2, const struct layers *)(&all));
    synchronize();
    free(layers);
    on = stream();
    rounds(argc, argv, round_of);
    return 0;
}
