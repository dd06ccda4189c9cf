/* A range of addresses whose granules come, go and move, and an allocator of pieces within them. */
#include "program.h"

#include "../probes/vmm.h"

enum { SLOTS = 6, PIECES = 16, PIECE = 16 << 10, OPERATIONS = 5 };

static CUfunction add;
static CUdeviceptr range;
/* What is mapped at each granule of the range, if anything. */
static CUhandle mapped[SLOTS];

static CUdeviceptr slot_at(unsigned slot) { return range + (CUdeviceptr)slot * CHUNK; }

static CUdeviceptr piece_of(unsigned slot) { return slot_at(slot) + (CUdeviceptr)(CHUNK - PIECES * PIECE) + below(PIECES) * PIECE; }

static void put(unsigned slot, CUhandle handle) {
    map(slot_at(slot), CHUNK, 0, handle);
    allow(slot_at(slot), CHUNK);
    mapped[slot] = handle;
}

static void grow(unsigned slot) {
    put(slot, create(CHUNK, 0));
    /* New memory holds anything. */
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(slot_at(slot), (unsigned)next(), CHUNK / 4));
    synchronize();
}

static CUhandle taken(unsigned slot) {
    CUhandle handle = mapped[slot];
    unmap(slot_at(slot), CHUNK);
    mapped[slot] = 0;
    return handle;
}

/* A granule that is mapped, or not, as asked for; SLOTS where there is none. */
static unsigned any(int is_mapped) {
    unsigned first = below(SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) {
        unsigned slot = (first + i) % SLOTS;
        if ((mapped[slot] != 0) == is_mapped) return slot;
    }
    return SLOTS;
}

static void operation(void) {
    unsigned full = any(1), empty = any(0);
    unsigned what = below(5);
    if (full == SLOTS || (what == 0 && empty != SLOTS)) {
        grow(empty);
    } else if (what == 1) {
        drop(taken(full));
    } else if (what == 2 && empty != SLOTS) {
        put(empty, taken(full));
    } else if (what == 3) {
        randomize_device(piece_of(full), PIECE);
    } else {
        CUdeviceptr to = piece_of(full), from = piece_of(any(1));
        axpy(add, NULL, to, from, PIECE / 4, (uint32_t)next());
        synchronize();
    }
}

static void round_of(void) {
    for (int i = 0; i < OPERATIONS; i++) operation();
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        saw(mapped[slot] != 0);
        if (mapped[slot]) saw_device(slot_at(slot) + CHUNK - PIECES * PIECE, PIECES * PIECE);
    }
}

int main(int argc, char **argv) {
    start();
    add = kernel("axpy");
    range = reserve((size_t)SLOTS * CHUNK);
    rounds(argc, argv, round_of);
    return 0;
}
