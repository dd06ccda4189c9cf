/* Programs that forbid themselves system calls. The argument is CALL:ERROR, as in membarrier:EPERM: the
 * call is denied before the agent starts; with `late-` before it, afterwards.
 */
#include "life.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define DENY(number, error)                                                                 \
    {                                                                                       \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),              \
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                              \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error)),                         \
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),                                   \
    }

static const struct {
    const char *name;
    int number;
} calls[] = {
    {"membarrier", SYS_membarrier}, {"signalfd4", SYS_signalfd4},
    {"eventfd2", SYS_eventfd2},     {"pidfd_open", SYS_pidfd_open},
    {"connect", SYS_connect},       {"prlimit64", SYS_prlimit64},
    {"socket", SYS_socket},         {"rt_sigqueueinfo", SYS_rt_sigqueueinfo},
    {"clone3", SYS_clone3},
};

static const struct {
    const char *name;
    int number;
} errors[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EACCES", EACCES}};

/* For all threads. */
static void deny(const char *what) {
    int number = -1, error = 0;
    const char *colon = strchr(what, ':');
    CHECK(colon);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        size_t length = strlen(calls[i].name);
        if ((size_t)(colon - what) == length && !strncmp(calls[i].name, what, length))
            number = calls[i].number;
    }
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(errors[i].name, colon + 1)) error = errors[i].number;
    CHECK(number >= 0 && error);
    struct sock_filter filter[] = DENY((unsigned)number, (unsigned)error);
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static atomic_int stop;

/* Launches in bursts: between them the gate closes. */
static void *launcher(void *unused) {
    life_current();
    while (!atomic_load(&stop)) {
        for (int i = 0; i < 8; i++) life_add();
        synchronize();
        nap(20000);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    int late = !strncmp(argv[1], "late-", 5);
    if (!late) deny(argv[1]);
    life_start();
    life_round();
    if (late) {
        deny(argv[1] + 5);
        pthread_t other = thread(launcher, NULL, 0);
        for (int i = 0; i < 5; i++) {
            nap(5000);
            ready(BYTES);
        }
        atomic_store(&stop, 1);
        join(other);
        life_check();
    }
    life_round();
    say("ok");
    return 0;
}
