/* Programs with habits of their own. */
#include "life.h"

#include <dirent.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Fails while it is told to: also for the agent, whose calls come here too. */
static atomic_int no_threads;

int pthread_create(pthread_t *made, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    if (atomic_load(&no_threads)) return EAGAIN;
    return next(made, attributes, body, argument);
}

/* The agent's thread cannot be made. */
static void no_thread(void) {
    door("cuInit");
    atomic_store(&no_threads, 1);
    CHECK(CU(cuInit, unsigned)(0) == SUCCESS);
    atomic_store(&no_threads, 0);
    life_start();
    life_round();
}

static void locked_memory(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    life_start();
    life_round();
}

static void small_files(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0 && setrlimit(RLIMIT_CORE, &none) == 0);
    life_start();
    life_round();
}

static void folder_gone(void) {
    char name[] = "/tmp/rtswap-life-XXXXXX";
    CHECK(mkdtemp(name) && chdir(name) == 0 && rmdir(name) == 0);
    life_start();
    life_round();
}

static void mask(void) {
    umask(0777);
    life_start();
    life_round();
}

/* Nothing of the environment is left before the agent starts. */
static void no_environment(void) {
    MUST(CU(cuInit, unsigned)(0));
    clearenv();
    life_start();
    life_round();
    setenv("RTSWAP_RUNTIME_DIR", "/nowhere", 1);
    setenv("RTSWAP_TASK", "another", 1);
    setenv("LD_PRELOAD", "", 1);
    life_round();
}

/* Another folder after the start, with a relative RTSWAP_RUNTIME_DIR. */
static void moves_on(void) {
    life_start();
    CHECK(chdir("/") == 0);
    life_round();
}

/* setuid and its like need an answer from every thread, ours too. */
static void identities(void) {
    life_start();
    for (int i = 0; i < 50; i++) {
        CHECK(setegid(getgid()) == 0 && seteuid(getuid()) == 0);
        CHECK(setresuid(getuid(), getuid(), getuid()) == 0);
    }
    life_round();
}

/* A tracer that stops all threads all the time, ours too. */
static void traced(void) {
    int ends[2];
    char byte = 0;
    life_start();
    CHECK(pipe(ends) == 0);
    pid_t self = getpid();
    /* Yama lets a child trace its parent only by leave of that; without Yama there is nothing to ask. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        close(ends[1]);
        if (fcntl(ends[0], F_SETFL, O_NONBLOCK)) _exit(1);
        pid_t threads[64];
        int count = 0, status;
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task", self);
        DIR *tasks = opendir(path);
        for (struct dirent *task; tasks && count < 64 && (task = readdir(tasks));) {
            pid_t id = atoi(task->d_name);
            if (id > 0 && ptrace(PTRACE_SEIZE, id, 0, 0) == 0) threads[count++] = id;
        }
        if (count < 2) _exit(2);
        for (int round = 0; read(ends[0], &byte, 1) < 0; round++) {
            for (int i = 0; i < count; i++) {
                if (ptrace(PTRACE_INTERRUPT, threads[i], 0, 0) != 0) continue;
                if (waitpid(threads[i], &status, __WALL) != threads[i]) continue;
                nap(300);
                int signal = WIFSTOPPED(status) && status >> 16 == 0 ? WSTOPSIG(status) : 0;
                ptrace(PTRACE_CONT, threads[i], 0, signal);
            }
            nap(500);
        }
        for (int i = 0; i < count; i++) {
            ptrace(PTRACE_INTERRUPT, threads[i], 0, 0);
            waitpid(threads[i], &status, __WALL);
            ptrace(PTRACE_DETACH, threads[i], 0, 0);
        }
        _exit(0);
    }
    close(ends[0]);
    for (int i = 0; i < 5; i++) life_round();
    CHECK(write(ends[1], "x", 1) == 1);
    close(ends[1]);
    reap(tracer);
    life_round();
}

/* The driver by dlopen, closed and opened again, and a library beside it. */
static void closes_libraries(void) {
    for (int i = 0; i < 5; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        CHECK(driver);
        int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
        CHECK(init && init(0) == SUCCESS);
        CHECK(dlclose(driver) == 0);
    }
    life_start();
    void *other = dlopen("libm.so.6", RTLD_NOW);
    CHECK(other && dlclose(other) == 0);
    life_round();
    void *agent = dlopen("librtswap_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; agent && i < 5; i++) dlclose(agent);
    life_round();
}

PROBES({"no_thread", no_thread}, {"locked_memory", locked_memory}, {"small_files", small_files},
       {"folder_gone", folder_gone}, {"mask", mask}, {"no_environment", no_environment},
       {"moves_on", moves_on}, {"identities", identities}, {"traced", traced},
       {"closes_libraries", closes_libraries})
