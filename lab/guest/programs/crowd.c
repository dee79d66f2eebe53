/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * crowd PROCESSES GROUPS KIB HOT_KIB PAUSE_MS PARENT: many small programs. It makes GROUPS control
 * groups t0, t1, ... below the directory PARENT, and PROCESSES processes, one after the other in
 * each group. A process touches every page of KIB of anonymous memory once, and the first HOT_KIB
 * again after every pause. With HOT_KIB 0 it only sleeps.
 *
 * It prints a JSON line once every process has touched its memory. The processes end with it. The
 * groups stay until their parent is removed.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "common.h"

struct part {
    size_t bytes, hot_bytes;
    long pause_ms;
};

static void join_group(const char *parent, long number)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/t%ld", parent, number);
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        fail("%s: cannot make the group: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%s/t%ld/cgroup.procs", parent, number);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file) != 0)
        fail("%s: cannot join the group: %s", path, strerror(errno));
}

static _Noreturn void live(const struct part *part, int ready)
{
    char *memory = allocate(part->bytes, -1, 0);
    if (write(ready, "x", 1) != 1)
        fail("cannot tell that the memory is touched: %s", strerror(errno));
    close(ready);
    volatile char *hot = memory;
    struct timespec pause = {part->pause_ms / 1000, part->pause_ms % 1000 * 1000000};
    for (;;) {
        for (size_t at = 0; at < part->hot_bytes; at += PAGE_BYTES)
            hot[at]++;
        nanosleep(&pause, NULL);
    }
}

int main(int count, char **words)
{
    if (count != 7)
        fail("usage: crowd PROCESSES GROUPS KIB HOT_KIB PAUSE_MS PARENT");
    long processes = number_of("PROCESSES", words[1], 1);
    long groups = number_of("GROUPS", words[2], 1);
    struct part part = {(size_t)number_of("KIB", words[3], 4) << 10,
                        (size_t)number_of("HOT_KIB", words[4], 0) << 10,
                        number_of("PAUSE_MS", words[5], 1)};
    if (part.hot_bytes > part.bytes)
        fail("HOT_KIB: more than KIB");
    int ready[2];
    if (pipe(ready) != 0)
        fail("pipe: %s", strerror(errno));
    pid_t parent = getpid();
    for (long i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork %ld of %ld: %s", i, processes, strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                return 1;
            close(ready[0]);
            join_group(words[6], i % groups);
            live(&part, ready[1]);
        }
    }
    close(ready[1]);
    char byte;
    for (long i = 0; i < processes; i++) {
        if (read(ready[0], &byte, 1) != 1)
            fail("only %ld of %ld processes have touched their memory", i, processes);
    }
    printf("{\"processes\": %ld, \"groups\": %ld}\n", processes, groups);
    fflush(stdout);
    pause();
    return 0;
}
