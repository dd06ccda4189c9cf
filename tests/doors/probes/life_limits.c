/* Programs with few descriptors, and with a stderr that is none. */
#include "life.h"

#include <sys/resource.h>

static void limit(rlim_t soft, rlim_t hard) {
    struct rlimit limit = {soft, hard};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* How many files the program can still open. */
static int can_open(void) {
    static int opened[4096];
    int count = 0;
    while ((opened[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
    CHECK(errno == EMFILE);
    for (int i = 0; i < count; i++) close(opened[i]);
    return count;
}

static void show_limit(void) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    say("limit %d, can open %d", (int)now.rlim_cur, can_open());
}

/* A soft limit of so few that none is to spare. */
static void soft_few(void) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    limit(32, now.rlim_max);
    life_start();
    show_limit();
    life_round();
    show_limit();
}

/* The usual one. */
static void soft_usual(void) {
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    limit(1024, now.rlim_max);
    life_start();
    show_limit();
    life_round();
}

/* The program takes its last descriptor before the agent starts: those that the driver needs are free
 * again in time, ours are not. */
static void at_limit(void) {
    struct rlimit now;
    int free_ones[12], last = -1, fd;
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0);
    limit(64, now.rlim_max);
    for (int i = 0; i < 12; i++) CHECK((free_ones[i] = open("/dev/null", O_RDONLY)) >= 0);
    while ((fd = open("/dev/null", O_RDONLY)) >= 0) last = fd;
    CHECK(last == 63);
    for (int i = 0; i < 12; i++) close(free_ones[i]);
    life_start();
    show_limit();
    life_round();
    show_limit();
}

/* A hard limit as low: no room for ours, so there is no agent, and a line says why. */
static void hard_few(void) {
    limit(32, 32);
    life_start();
    show_limit();
    life_round();
}

/* The program lowers its limit to 8 while it runs. */
static void lowered(void) {
    life_start();
    limit(8, 8);
    life_round();
}

/* Descriptor 2 is a file of the program's own. */
static void reused_stderr(void) {
    close(2);
    char name[] = "/tmp/rtswap-life-XXXXXX";
    int file = mkstemp(name);
    CHECK(file == 2 && unlink(name) == 0);
    life_start();
    CHECK(lseek(file, 0, SEEK_END) == 0);
    life_round();
    CHECK(lseek(file, 0, SEEK_END) == 0);
}

/* Nobody reads stderr any more. */
static void dead_stderr(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    close(ends[0]);
    close(ends[1]);
    life_start();
    sigset_t pending;
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 0);
    life_round();
}

/* Somebody has it, and does not read. */
static void full_stderr(void) {
    int ends[2];
    static char filler[4096];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    while (write(ends[1], filler, sizeof filler) > 0) {}
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0 && dup2(ends[1], 2) == 2);
    life_start();
    life_round();
}

PROBES({"soft_few", soft_few}, {"soft_usual", soft_usual}, {"at_limit", at_limit},
       {"hard_few", hard_few}, {"lowered", lowered}, {"reused_stderr", reused_stderr},
       {"dead_stderr", dead_stderr}, {"full_stderr", full_stderr})
