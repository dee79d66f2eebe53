/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * chase KIB NODE [ACCESSES [REPEATS]]: measures the latency of memory by a pointer chase. It reads
 * every line of a buffer once, in an order that no prefetcher predicts; each address comes from the
 * previous line. It prints one JSON line per repeat.
 */
#include "common.h"

#define LINE_BYTES 64UL

static void **linked_in_random_order(char *memory, size_t lines)
{
    uint32_t *order = malloc(lines * sizeof *order);
    if (!order)
        fail("out of memory for %zu lines", lines);
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    uint64_t seed = RANDOM_SEED;
    for (size_t i = lines - 1; i > 0; i--) { /* Sattolo's shuffle: one cycle through all lines */
        size_t other = random_next(&seed) % i;
        uint32_t line = order[i];
        order[i] = order[other];
        order[other] = line;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + order[i] * LINE_BYTES) = memory + order[(i + 1) % lines] * LINE_BYTES;
    void **first = (void **)(memory + order[0] * LINE_BYTES);
    free(order);
    return first;
}

static void **follow(void **at, long accesses)
{
    for (long i = 0; i < accesses; i++)
        at = *at;
    __asm__ volatile("" : : "r"(at));
    return at;
}

int main(int count, char **words)
{
    if (count < 3 || count > 5)
        fail("usage: chase KIB NODE [ACCESSES [REPEATS]], for example: chase 16384 1");
    size_t kib = (size_t)number_of("KIB", words[1], 1);
    int node = (int)number_of("NODE", words[2], -1);
    long accesses = count > 3 ? number_of("ACCESSES", words[3], 1) : 1000000;
    long repeats = count > 4 ? number_of("REPEATS", words[4], 1) : 3;
    size_t lines = kib * 1024 / LINE_BYTES;
    void **at = linked_in_random_order(allocate(kib * 1024, node, 0), lines);
    at = follow(at, (long)lines < accesses ? (long)lines : accesses);
    for (long repeat = 0; repeat < repeats; repeat++) {
        double start = now_s();
        at = follow(at, accesses);
        double ns = (now_s() - start) * 1e9 / (double)accesses;
        printf("{\"kib\": %zu, \"node\": %d, \"ns_per_access\": %.2f}\n", kib, node, ns);
        fflush(stdout);
    }
    return 0;
}
