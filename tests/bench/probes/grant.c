/* How long a job waits for its grant, beside a bare ping-pong over two named pipes.
 *
 * grant ROUNDS PAUSE_US          asks and pings in turn; needs the agent
 * grant echo IN OUT              the other end of the pipes; needs nothing
 *
 * The two are taken in turn, each after the same pause, so that both meet the same machine:
 *   {"grant_ns":[...],"ping_ns":[...]}
 */
#define _GNU_SOURCE
#include "cuda.h"
#include "rtswap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int echo(const char *in, const char *out) {
    char byte;
    int from, to;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    from = open(in, O_RDONLY);
    to = open(out, O_WRONLY);
    while (read(from, &byte, 1) == 1)
        if (write(to, &byte, 1) != 1) return 1;
    return 0;
}

static void nap(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    if (us) nanosleep(&t, NULL);
}

static void print(const char *name, const long *ns, long count) {
    printf("\"%s\":[", name);
    for (long i = 0; i < count; i++) printf("%s%ld", i ? "," : "", ns[i]);
    printf("]");
}

int main(int argc, char **argv) {
    if (argc == 4) return echo(argv[2], argv[3]);
    if (argc != 3) return 2;
    long rounds = atol(argv[1]), pause = atol(argv[2]);
    long *ns[2] = {calloc(rounds, sizeof(long)), calloc(rounds, sizeof(long))};
    char folder[] = "/tmp/rtswap-grant-XXXXXX", in[64], out[64], byte = 1;
    int to, from;
    if (!mkdtemp(folder)) return 4;
    snprintf(in, sizeof in, "%s/in", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    if (mkfifo(in, 0600) || mkfifo(out, 0600)) return 4;
    if (vfork() == 0) {
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "grant", "echo", in, out, (char *)NULL);
        _exit(5);
    }
    to = open(in, O_WRONLY);
    from = open(out, O_RDONLY);
    unlink(in), unlink(out), rmdir(folder);
    probe_kernel("axpy", PROBE_PTX);
    for (long i = -100; i < rounds; i++) {
        long t[2], before;
        nap(pause);
        before = now();
        rtswap_job_begin();
        t[0] = now() - before;
        rtswap_job_end();
        nap(pause);
        before = now();
        if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1) return 6;
        t[1] = now() - before;
        for (int k = 0; k < 2 && i >= 0; k++) ns[k][i] = t[k];
    }
    printf("{");
    print("grant_ns", ns[0], rounds);
    printf(",");
    print("ping_ns", ns[1], rounds);
    printf("}\n");
    return 0;
}
