/* Cancelled threads. The runner swaps the memory out at `ready`, and lets the probe go on a second
 * time once a job is asked for, which it grants only after the line `cancelled`.
 */
#include "life.h"

enum { DEFERRED, ASYNCHRONOUS };

static atomic_int cleaned;

static void on_cancel(void *unused) {
    (void)unused;
    atomic_fetch_add(&cleaned, 1);
}

static void *waiting_body(void *type) {
    CHECK(pthread_setcanceltype((size_t)type == DEFERRED ? PTHREAD_CANCEL_DEFERRED
                                                         : PTHREAD_CANCEL_ASYNCHRONOUS,
                                NULL) == 0);
    life_current();
    pthread_cleanup_push(on_cancel, NULL);
    /* Waits at the gate. */
    CUdeviceptr more = alloc(512);
    MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(more, 7, 128));
    for (;;) pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void at_gate(size_t type) {
    life_start();
    life_add();
    synchronize();
    say("held %d", BYTES);
    turn();
    pthread_t one = thread(waiting_body, (void *)type, 0);
    turn();
    CHECK(pthread_cancel(one) == 0);
    nap(20000);
    say("cancelled");
    CHECK(join(one) == PTHREAD_CANCELED);
    CHECK(atomic_load(&cleaned) == 1);
    /* The gate closes again: nobody is in a call any more. */
    life_round();
}

static void at_gate_deferred(void) { at_gate(DEFERRED); }
static void at_gate_asynchronous(void) { at_gate(ASYNCHRONOUS); }

static void *busy_body(void *context) {
    life_context = context;
    life_current();
    for (int i = 0;; i++) {
        CUdeviceptr at = alloc(4096);
        CUstream own = stream();
        MUST(CU(cuMemsetD32_v2, CUdeviceptr, unsigned, size_t)(at, 7, 1024));
        synchronize();
        MUST(CU(cuStreamDestroy_v2, CUstream)(own));
        release(at);
        pthread_testcancel();
    }
    return NULL;
}

/* Two hundred threads cancelled anywhere between and within calls. */
static void anywhere(void) {
    life_start();
    for (int i = 0; i < 100; i++) {
        pthread_t two[2] = {thread(busy_body, life_context, 0), thread(busy_body, life_context, 0)};
        nap(i * 37 % 1500);
        for (int j = 0; j < 2; j++) CHECK(pthread_cancel(two[j]) == 0);
        for (int j = 0; j < 2; j++) CHECK(join(two[j]) == PTHREAD_CANCELED);
    }
    life_round();
}

static atomic_int within;

static void *driver_body(void *unused) {
    (void)unused;
    life_current();
    pthread_cleanup_push(on_cancel, NULL);
    atomic_store(&within, 1);
    /* life_driver.c polls in it. */
    unsigned char host[512];
    to_host(host, life_sum, sizeof host);
    pthread_cleanup_pop(0);
    return NULL;
}

/* A thread cancelled while it blocks in the driver itself. */
static void in_driver(void) {
    life_start();
    life_add();
    synchronize();
    void (*block)(int) = (void (*)(int))door("driver_blocks");
    block(1);
    pthread_t one = thread(driver_body, NULL, 0);
    while (!atomic_load(&within)) nap(100);
    nap(20000);
    CHECK(pthread_cancel(one) == 0);
    CHECK(join(one) == PTHREAD_CANCELED);
    CHECK(atomic_load(&cleaned) == 1);
    block(0);
    life_round();
}

/* A thread that is cancelled while the agent starts. */
static void *init_body(void *unused) {
    (void)unused;
    pthread_cancel(pthread_self());
    MUST(CU(cuInit, unsigned)(0));
    pthread_testcancel();
    return NULL;
}

static void in_init(void) {
    door("cuInit"); /* the loader itself would be cancelled */
    CHECK(join(thread(init_body, NULL, 0)) == PTHREAD_CANCELED);
    life_start();
    life_round();
}

PROBES({"at_gate_deferred", at_gate_deferred}, {"at_gate_asynchronous", at_gate_asynchronous},
       {"anywhere", anywhere}, {"in_driver", in_driver}, {"in_init", in_init})
