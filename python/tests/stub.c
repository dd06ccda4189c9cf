/* The agent's functions, writing down each call. Preloaded as the agent is. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(const char *name, const void *at, size_t bytes) {
    char line[128];
    int length = snprintf(line, sizeof line, "%s %zu %zu\n", name, (size_t)at, bytes);
    const char *fd = getenv("STUB_FD");
    if (fd && write(atoi(fd), line, (size_t)length) != length)
        abort();
}

void rtswap_job_begin(void) {
    const char *slow = getenv("STUB_BEGIN_US");
    note("begin", 0, 0);
    if (slow)
        usleep((useconds_t)atoi(slow));
}

void rtswap_job_begin_named(const char *name) {
    note(name, 0, 0);
}

void rtswap_job_end(void) {
    note("end", 0, 0);
}

void rtswap_hint_read_only(const void *at, size_t bytes) {
    note("read_only", at, bytes);
}

void rtswap_hint_writable(const void *at, size_t bytes) {
    note("writable", at, bytes);
}
