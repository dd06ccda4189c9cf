/* Closes every descriptor from 3 on, as daemons do, and then takes the numbers for its own pipe.
 *
 * What it says at its end: CPU ms used in a second of sleep, bytes missing from the pipe, numbers
 * closed under it, and words of its GPU memory that are wrong.
 *   {"busy_ms":N,"lost_bytes":N,"closed":N,"wrong_words":N}
 */
#define _GNU_SOURCE
#include "cuda.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORDS = 1 << 18, BYTES = 4096, NUMBERS = 1000 };

static long cpu_ms(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
           (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
}

int main(void) {
    CUdeviceptr buffer;
    (void)probe_kernel("axpy", PROBE_PTX);
    MUST(cuMemAlloc_v2(&buffer, 4 * WORDS));
    MUST(cuMemsetD32_v2(buffer, 7, WORDS));
    MUST(cuCtxSynchronize());
    usleep(50000);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0) return 2;
    long before = cpu_ms();
    usleep(1000000);
    long busy = cpu_ms() - before;

    int pipe_ends[2], taken[NUMBERS] = {0};
    static char data[BYTES];
    if (pipe2(pipe_ends, O_NONBLOCK) != 0 || write(pipe_ends[1], data, BYTES) != BYTES) return 2;
    for (int number = 3; number < NUMBERS; number++)
        if (fcntl(number, F_GETFD) < 0) taken[number] = dup2(pipe_ends[0], number) == number;
    usleep(500000);
    int kept = 0, closed = 0, got;
    while ((got = read(pipe_ends[0], data, BYTES)) > 0) kept += got;
    for (int number = 3; number < NUMBERS; number++)
        closed += taken[number] && fcntl(number, F_GETFD) < 0;

    uint32_t *host = malloc(4 * WORDS);
    MUST(cuMemcpyDtoH_v2(host, buffer, 4 * WORDS));
    int wrong = 0;
    for (int word = 0; word < WORDS; word++) wrong += host[word] != 7;
    printf("{\"busy_ms\":%ld,\"lost_bytes\":%d,\"closed\":%d,\"wrong_words\":%d}\n", busy,
           BYTES - kept, closed, wrong);
    return 0;
}
