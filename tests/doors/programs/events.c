/* Work on four streams over four buffers, ordered by events alone. */
#include "program.h"

enum { COUNT = 4, WORDS = 1 << 14, BYTES = WORDS * 4, OPERATIONS = 8 };

static CUfunction add;
static CUdeviceptr buffers[COUNT];
static CUstream streams[COUNT];
/* The end of the last work on each buffer. */
static CUevent last[COUNT];

static void operation(void) {
    unsigned to = below(COUNT), from = below(COUNT), on = below(COUNT);
    CUstream stream = streams[on];
    after(stream, last[to]);
    after(stream, last[from]);
    switch (below(3)) {
    case 0:
        set_words(buffers[to] + 4 * below(WORDS / 2), (uint32_t)next(), WORDS / 2, stream);
        break;
    case 1:
        copy_within(buffers[to], buffers[from] + (to == from ? BYTES / 2 : 0), BYTES / 2, stream);
        break;
    default:
        axpy(add, stream, buffers[to], buffers[from], WORDS, (uint32_t)next());
    }
    record(last[to], stream);
    record(last[from], stream);
}

static void round_of(void) {
    unsigned refreshed = below(COUNT);
    synchronize();
    randomize_device(buffers[refreshed], BYTES);
    for (int i = 0; i < OPERATIONS; i++) operation();
    unsigned asked = below(COUNT);
    MUST(CU(cuEventSynchronize, CUevent)(last[asked]));
    CHECK(CU(cuEventQuery, CUevent)(last[asked]) == SUCCESS);
    saw_device(buffers[asked], BYTES);
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = apart(BYTES);
        fill(buffers[i], BYTES, (unsigned)i);
        streams[i] = stream();
        last[i] = event();
    }
    rounds(argc, argv, round_of);
    return 0;
}
