/* Ends of every kind. */
#include "life.h"

static void exit_handler_before(void) {
    /* Registered before the agent's own handler, so it runs after it. */
    life_check();
    say("the words are right at exit");
}

static void exit_handler_after(void) {
    life_add();
    synchronize();
    life_check();
    say("and before");
}

/* Handlers that use memory which is swapped out, as destructors of static objects do. */
static void handlers(void) {
    CHECK(atexit(exit_handler_before) == 0);
    life_start();
    CHECK(atexit(exit_handler_after) == 0);
    life_add();
    synchronize();
    ready(BYTES);
    exit(7);
}

/* The same where only the handler that runs last finds it gone. */
static void last_handler(void) {
    CHECK(atexit(exit_handler_before) == 0);
    life_start();
    life_add();
    synchronize();
    ready(BYTES);
    exit(7);
}

static CUdeviceptr much;

static void plenty(void) {
    life_start();
    much = alloc(32 * MIB);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(much, 5, 8 * MIB));
    synchronize();
}

/* The runner swaps while the process ends. */
static void end_exit(void) {
    plenty();
    say("ends");
    turn();
    exit(7);
}

static void end_return_of_main(void) {
    plenty();
    say("ends");
    turn();
}

static void end_quick(void) {
    plenty();
    say("ends");
    turn();
    _exit(7);
}

static void end_abort(void) {
    plenty();
    say("ends");
    turn();
    abort();
}

static void end_killed(void) {
    plenty();
    say("ends");
    turn();
    raise(SIGKILL);
}

static void *exits(void *unused) {
    exit(7);
    return unused;
}

static atomic_int about_to_wait;

static void *waits(void *unused) {
    life_current();
    void *set = door("cuMemsetD32_v2");
    atomic_store(&about_to_wait, 1);
    /* Whatever comes of it while the process ends. */
    ((CUresult(*)(CUdeviceptr, unsigned, size_t))set)(life_sum, 1, WORDS);
    for (;;) pause();
    return unused;
}

/* Another thread calls exit, while one waits at the gate. */
static void end_other_thread(void) {
    plenty();
    say("ends");
    turn();
    thread(waits, NULL, 0);
    while (!atomic_load(&about_to_wait)) nap(100);
    nap(50000);
    thread(exits, NULL, 0);
    for (;;) pause();
}

static volatile sig_atomic_t faulted;
static int *volatile nowhere;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    faulted = number == SIGSEGV && info->si_addr == nowhere;
    static const char text[] = "a fault of its own\n";
    if (faulted && write(1, text, sizeof text - 1) < 0) _exit(1);
    _exit(9);
}

/* A crash that the program itself handles. */
static void end_fault(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    plenty();
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    say("ends");
    turn();
    *nowhere = 1;
}

/* A handler that was there before the agent stays. */
static void handler_stays(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, now;
    for (int number = 1; number < 32; number++) {
        if (number != SIGKILL && number != SIGSTOP) sigaction(number, &action, NULL);
    }
    life_start();
    for (int number = 1; number < 32; number++) {
        if (number == SIGKILL || number == SIGSTOP) continue;
        CHECK(sigaction(number, NULL, &now) == 0);
        CHECK(now.sa_sigaction == on_fault && now.sa_flags & SA_SIGINFO);
    }
    sigset_t mask;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
    for (int number = 1; number < 32; number++) CHECK(sigismember(&mask, number) == 0);
    for (int number = 1; number < 32; number++) signal(number, SIG_DFL);
    life_round();
}

PROBES({"handlers", handlers}, {"last_handler", last_handler}, {"exit", end_exit},
       {"return_of_main", end_return_of_main}, {"_exit", end_quick}, {"abort", end_abort},
       {"killed", end_killed}, {"other_thread", end_other_thread}, {"fault", end_fault},
       {"handler_stays", handler_stays})
