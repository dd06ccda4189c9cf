/* Memory that is freed, and other memory that takes its place, while another process opens it.
 *
 * ipc_race offer TABLE ROUNDS   in each round allocates memory, marks each chunk, offers it by way of
 *                               the file TABLE, frees it while the other opens it, and allocates and
 *                               marks as much again: {"rounds":N,"replaced":N}, replaced where the
 *                               second memory has the address of the first
 * ipc_race open TABLE ROUNDS    opens what is offered and looks at each chunk:
 *                               {"opened":N,"refused":N,"foreign":N}, foreign where a word is not the
 *                               mark of what was offered
 *
 * The free comes later after a refusal and earlier after a success, so that it meets the opening.
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "rtswap.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { CHUNKS = 4, CHUNK = 2 << 20, WORDS = 64 };
/* How much earlier or later the next free comes, and how far it strays, in ns. */
enum { STEP = 5 * 1000, STRAY = 40 * 1000 };

typedef struct { unsigned char bytes[64]; } CUipcMemHandle;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr at);

/* What both see: the round that is offered, and the last that was opened or refused. */
static struct {
    _Atomic uint32_t offered, begun, answered;
    uint32_t refused;
    CUipcMemHandle handle;
} *table;

static void wait_for(_Atomic uint32_t *word, uint32_t value) {
    while (atomic_load(word) != value) usleep(10);
}

static void mark(CUdeviceptr at, uint32_t value) {
    for (int i = 0; i < CHUNKS; i++) MUST(cuMemsetD32_v2(at + (CUdeviceptr)i * CHUNK, value, WORDS));
    MUST(cuCtxSynchronize());
}

static void spin(long ns) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < ns);
}

static void offer(uint32_t rounds) {
    long delay = 0, step = STEP, replaced = 0;
    int before = 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        CUdeviceptr first, second;
        MUST(cuMemAlloc_v2(&first, CHUNKS * CHUNK));
        mark(first, round);
        MUST(cuIpcGetMemHandle(&table->handle, first));
        atomic_store(&table->offered, round);
        wait_for(&table->begun, round);
        spin(delay + random() % STRAY);
        MUST(cuMemFree_v2(first));
        MUST(cuMemAlloc_v2(&second, CHUNKS * CHUNK));
        mark(second, ~round);
        replaced += first == second;
        wait_for(&table->answered, round);
        /* Twice as far while the same side wins, so that the race is found wherever the host puts it. */
        step = table->refused == before ? step * 2 : STEP;
        before = table->refused;
        delay += before ? step : -step;
        if (delay < 0) delay = 0, step = STEP;
        MUST(cuMemFree_v2(second));
    }
    printf("{\"rounds\":%u,\"replaced\":%ld}\n", rounds, replaced);
}

static void open_it(uint32_t rounds) {
    long opened = 0, refused = 0, foreign = 0;
    for (uint32_t round = 1; round <= rounds; round++) {
        CUdeviceptr at;
        wait_for(&table->offered, round);
        CUipcMemHandle handle = table->handle;
        atomic_store(&table->begun, round);
        table->refused = cuIpcOpenMemHandle_v2(&at, handle, 1) != 0;
        if (table->refused) {
            refused++;
        } else {
            uint32_t words[WORDS], other = 0;
            for (int i = 0; i < CHUNKS; i++) {
                MUST(cuMemcpyDtoH_v2(words, at + (CUdeviceptr)i * CHUNK, sizeof words));
                for (int j = 0; j < WORDS; j++) other |= words[j] ^ round;
            }
            opened++;
            foreign += other != 0;
            MUST(cuIpcCloseMemHandle(at));
        }
        atomic_store(&table->answered, round);
    }
    printf("{\"opened\":%ld,\"refused\":%ld,\"foreign\":%ld}\n", opened, refused, foreign);
}

int main(int argc, char **argv) {
    char line;
    if (argc != 4) return 2;
    int file = open(argv[2], O_RDWR);
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (table == MAP_FAILED) return 3;
    (void)probe_kernel("axpy", PROBE_PTX);
    printf("ready\n");
    fflush(stdout);
    if (read(0, &line, 1) != 1) return 4;
    rtswap_job_begin();
    (strcmp(argv[1], "offer") ? open_it : offer)((uint32_t)atol(argv[3]));
    fflush(stdout);
    rtswap_job_end();
    return 0;
}
