/* Children of every kind. What a child may do must not change, and it must hold nothing of ours. */
#include "life.h"

#include <dirent.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>

extern char **environ;

/* How many descriptors are open. */
static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* Whether the page of the control protocol is mapped. */
static int has_page(void) {
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) found |= strstr(line, "memfd:puppet") != NULL;
    fclose(maps);
    return found;
}

/* A child that tries to use the GPU: the driver says no, as always after a fork. */
static void uses(void) {
    life_start();
    life_add();
    synchronize();
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr at;
        char host[16];
        say("cuInit %d", CU(cuInit, unsigned)(0));
        say("cuMemAlloc %d", CU(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 4096));
        say("cuMemcpyDtoH %d",
            CU(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)(host, life_sum, sizeof host));
        say("cuMemFree %d", CU(cuMemFree_v2, CUdeviceptr)(life_sum));
        say("cuCtxSynchronize %d", CU(cuCtxSynchronize, void)());
        _exit(0);
    }
    reap(child);
    life_round();
}

/* Children and a grandchild that use none, each with the descriptors of a program without rtswap. */
static void plain(void) {
    life_start();
    life_add();
    synchronize();
    ready(BYTES);
    pid_t child = fork();
    if (child == 0) {
        CHECK(!has_page());
        say("child %d", descriptors());
        pid_t grandchild = fork();
        if (grandchild == 0) {
            say("grandchild %d", descriptors());
            exit(0); /* with all handlers */
        }
        reap(grandchild);
        exit(0);
    }
    reap(child);
    life_round();
}

static atomic_int stop;

static void *forker(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100000));
            _exit(has_page());
        }
        reap(child);
    }
    return NULL;
}

/* Forks all the time, while other threads compute and the swap thread holds its locks. */
static void storm(void) {
    life_start();
    pthread_t forkers[2] = {thread(forker, NULL, 0), thread(forker, NULL, 0)};
    for (int i = 0; i < 10; i++) life_round();
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) join(forkers[i]);
    life_round();
}

/* Two forks, then the first cuInit, in a process whose first ancestor has gone on. */
static void daemonised(void) {
    int ends[2];
    char byte = 1;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        close(ends[0]);
        CHECK(chdir("/") == 0);
        life_start();
        life_add();
        synchronize();
        life_check();
        byte = 0;
        CHECK(write(ends[1], &byte, 1) == 1);
        exit(0);
    }
    close(ends[1]);
    reap(child);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 0);
    CHECK(read(ends[0], &byte, 1) == 0);
}

/* vfork and exec: the child shows its descriptors. */
static void vforked(void) {
    life_start();
    life_add();
    synchronize();
    ready(BYTES);
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "ls /proc/self/fd | wc -l", NULL);
        _exit(127);
    }
    reap(child);
    child = vfork();
    if (child == 0) _exit(0);
    reap(child);
    life_round();
}

/* posix_spawn, whose child must inherit none of ours. */
static void spawned(void) {
    life_start();
    life_add();
    synchronize();
    ready(BYTES);
    pid_t child;
    char *arguments[] = {"sh", "-c", "ls /proc/self/fd | wc -l", NULL};
    CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
    reap(child);
    life_round();
}

static int in_clone(void *ends) {
    return write(((int *)ends)[1], "x", 1) != 1;
}

/* A process that shares our memory. */
static void cloned(void) {
    enum { STACK = 64 << 10 };
    int ends[2];
    char byte = 0;
    life_start();
    life_add();
    synchronize();
    ready(BYTES);
    char *stack = malloc(STACK);
    CHECK(stack && pipe(ends) == 0);
    reap(clone(in_clone, stack + STACK, CLONE_VM | SIGCHLD, ends));
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x');
    life_round();
}

/* The program becomes another one, which uses the GPU too. */
static void exec_self(void) {
    if (getenv("LIFE_AGAIN")) {
        int count = descriptors();
        life_start();
        life_add();
        synchronize();
        life_check();
        say("again with %d descriptors", count);
        return;
    }
    life_start();
    life_add();
    synchronize();
    setenv("LIFE_AGAIN", "1", 1);
    execl("/proc/self/exe", "life_fork", "exec_self", NULL);
    fail(__FILE__, __LINE__, "exec", errno);
}

/* The parent dies, its child lives and holds copies of what there was. */
static void orphan(void) {
    life_start();
    life_add();
    synchronize();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(0);
        close(1);
        close(2);
        for (;;) pause();
    }
    say("child %d", child);
    turn();
    raise(SIGKILL);
}

PROBES({"uses", uses}, {"plain", plain}, {"storm", storm}, {"daemonised", daemonised},
       {"vforked", vforked}, {"spawned", spawned}, {"cloned", cloned}, {"exec_self", exec_self},
       {"orphan", orphan})
