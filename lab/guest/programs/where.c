/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * where PID START BYTES [START BYTES]...: finds the memory nodes of a process's pages. It prints a
 * JSON line per range: pages on nodes 0 to 3, and pages on no node (never touched, or swapped out).
 */
#include "common.h"

#define NODES 4

struct counts {
    size_t node[NODES];
    size_t absent;
};

static struct counts count_range(long pid, uintptr_t start, size_t bytes)
{
    static void *addresses[PAGES_PER_CALL];
    static int status[PAGES_PER_CALL];
    struct counts counts = {0};
    size_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    for (size_t first = 0; first < pages; first += PAGES_PER_CALL) {
        size_t n = pages - first < PAGES_PER_CALL ? pages - first : PAGES_PER_CALL;
        for (size_t i = 0; i < n; i++)
            addresses[i] = (void *)(start + (first + i) * PAGE_BYTES);
        if (syscall(SYS_move_pages, pid, n, addresses, NULL, status, 0) < 0)
            fail("move_pages of process %ld: %s", pid, strerror(errno));
        for (size_t i = 0; i < n; i++) {
            if (status[i] >= 0 && status[i] < NODES)
                counts.node[status[i]]++;
            else
                counts.absent++;
        }
    }
    return counts;
}

int main(int count, char **words)
{
    if (count < 4 || count % 2 != 0)
        fail("usage: where PID START BYTES [START BYTES]..., for example: where 123 0x7f0000000000 "
             "1048576");
    long pid = number_of("PID", words[1], 1);
    for (int i = 2; i + 1 < count; i += 2) {
        uintptr_t start = (uintptr_t)number_of("START", words[i], 0);
        struct counts counts = count_range(pid, start, (size_t)number_of("BYTES", words[i + 1], 1));
        printf("{\"start\": %lu, \"nodes\": [%zu, %zu, %zu, %zu], \"absent\": %zu}\n", start,
               counts.node[0], counts.node[1], counts.node[2], counts.node[3], counts.absent);
    }
    return 0;
}
