/* Two processes of which one gives the other its memory by handles, and sees what it did. */
#include "program.h"

#include <sys/wait.h>

enum { WORDS = 1 << 12, BYTES = WORDS * 4, HANDLE = 64, LAZY_PEER = 1 };

struct handle {
    unsigned char bytes[HANDLE];
};
/* What the other is to do. */
struct order {
    struct handle of;
    unsigned first, words;
    uint32_t value, factor;
};

static int to_other[2], to_us[2];

static void sends(int pipe, const void *bytes, size_t count) { CHECK(write(pipe, bytes, count) == (ssize_t)count); }

/* Whether there is more. */
static int takes(int pipe, void *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t got = read(pipe, (char *)bytes + done, count - done);
        if (got <= 0) return 0;
        done += (size_t)got;
    }
    return 1;
}

/* Opens what it is given, changes it, and says what it saw. */
static void other(void) {
    struct order order;
    start();
    CUfunction add = kernel("axpy");
    while (takes(to_other[0], &order, sizeof order)) {
        CUdeviceptr at;
        MUST(CU(cuIpcOpenMemHandle_v2, CUdeviceptr *, struct handle, unsigned)(&at, order.of, LAZY_PEER));
        program_digest = 0;
        saw_device(at, BYTES);
        set_words(at + 4 * order.first, order.value, order.words, NULL);
        axpy(add, NULL, at, at, WORDS, order.factor);
        synchronize();
        MUST(CU(cuIpcCloseMemHandle, CUdeviceptr)(at));
        sends(to_us[1], &program_digest, sizeof program_digest);
    }
}

static void round_of(void) {
    struct order order = {.first = below(WORDS / 2), .words = 1 + below(WORDS / 2)};
    uint64_t theirs;
    /* Something of its own before it, so that handles name places within what the driver gave. */
    CUdeviceptr before = alloc(1 + below(BYTES)), at = alloc(BYTES);
    order.value = (uint32_t)next();
    order.factor = (uint32_t)next();
    randomize_device(at, BYTES);
    MUST(CU(cuIpcGetMemHandle, struct handle *, CUdeviceptr)(&order.of, at));
    sends(to_other[1], &order, sizeof order);
    CHECK(takes(to_us[0], &theirs, sizeof theirs));
    saw(theirs);
    saw_device(at, BYTES);
    release(at);
    release(before);
}

int main(int argc, char **argv) {
    CHECK(!pipe(to_other) && !pipe(to_us));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(to_other[1]);
        other();
        return 0;
    }
    close(to_us[1]);
    start();
    rounds(argc, argv, round_of);
    close(to_other[1]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
