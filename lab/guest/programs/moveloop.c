/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * moveloop MIB BATCH ROUNDS [huge | PID ADDRESS]: measures the pages per second that a bare loop of
 * move_pages calls moves between nodes 0 and 1, the reference for a mover. BATCH is the number of
 * pages per call. The pages are its own, or those of a process from an address on: moving memory in
 * use costs more. It prints a JSON line per round. `placed` counts the pages that a later query
 * finds on the right node, because move_pages may report success for a page that returned. It
 * prints the cost of the query too.
 */
#include "common.h"

/* The process of the pages: 0 is this one. */
static long target;

static long call(unsigned long pages, void **addresses, const int *nodes, int *status)
{
    long result =
        syscall(SYS_move_pages, target, pages, addresses, nodes, status, 2 /* MPOL_MF_MOVE */);
    if (result < 0)
        fail("move_pages of %lu pages: %s", pages, strerror(errno));
    return result;
}

static size_t on_node(char *memory, size_t pages, int node)
{
    static void *addresses[PAGES_PER_CALL];
    static int status[PAGES_PER_CALL];
    size_t found = 0;
    for (size_t first = 0; first < pages; first += PAGES_PER_CALL) {
        size_t n = pages - first < PAGES_PER_CALL ? pages - first : PAGES_PER_CALL;
        for (size_t i = 0; i < n; i++)
            addresses[i] = memory + (first + i) * PAGE_BYTES;
        call(n, addresses, NULL, status);
        for (size_t i = 0; i < n; i++)
            found += status[i] == node;
    }
    return found;
}

struct batch {
    size_t capacity;
    void **addresses;
    int *nodes, *status;
};

struct times {
    double wall, cpu;
};

/* Returns this process's CPU time, which includes the kernel's copying. */
static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Moves everything to a node; the address of a huge page's first page moves all of it. */
static struct times move_all(char *memory, size_t pages, size_t step, int node, struct batch *batch)
{
    double start = now_s(), cpu = cpu_s();
    for (size_t page = 0; page < pages;) {
        size_t n = 0;
        for (; n < batch->capacity && page < pages; n++, page += step) {
            batch->addresses[n] = memory + page * PAGE_BYTES;
            batch->nodes[n] = node;
        }
        call(n, batch->addresses, batch->nodes, batch->status);
    }
    return (struct times){now_s() - start, cpu_s() - cpu};
}

int main(int count, char **words)
{
    int huge = count == 5 && strcmp(words[4], "huge") == 0;
    if (count != 4 && count != 6 && !huge)
        fail("usage: moveloop MIB BATCH ROUNDS [huge | PID ADDRESS], for example: moveloop 64 512 "
             "4");
    if (count == 6)
        target = number_of("PID", words[4], 1);
    size_t pages = (size_t)number_of("MIB", words[1], 1) * (MIB / PAGE_BYTES);
    size_t capacity = (size_t)number_of("BATCH", words[2], 1);
    long rounds = number_of("ROUNDS", words[3], 1);
    char *memory =
        target ? (char *)number_of("ADDRESS", words[5], 1) : allocate(pages * PAGE_BYTES, 0, huge);
    struct batch batch = {capacity, calloc(capacity, sizeof(void *)), calloc(capacity, sizeof(int)),
                          calloc(capacity, sizeof(int))};
    if (!batch.addresses || !batch.nodes || !batch.status)
        fail("out of memory for a batch of %zu pages", capacity);
    for (long round = 0; round < rounds; round++) {
        int node = round % 2 == 0;
        struct times took = move_all(memory, pages, huge ? 512 : 1, node, &batch);
        double asking = cpu_s();
        size_t placed = on_node(memory, pages, node);
        printf("{\"to\": %d, \"batch\": %zu, \"pages\": %zu, \"placed\": %zu, \"seconds\": %.6f, "
               "\"cpu_seconds\": %.6f, \"asking_cpu_seconds\": %.6f, \"pages_per_s\": %.0f}\n",
               node, capacity, pages, placed, took.wall, took.cpu, cpu_s() - asking,
               (double)pages / took.wall);
        fflush(stdout);
    }
    return 0;
}
