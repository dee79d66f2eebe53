/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Triangle counting: it counts, for every edge, the vertices in the lists of both ends. Each edge
 * is only in the list of the end with fewer edges, so that a triangle is counted once and no list
 * is long. A round counts all triangles; the checksum is the count so far.
 */
#ifndef TIERWISE_LAB_GRAPH_TC_H
#define TIERWISE_LAB_GRAPH_TC_H

#include "graph_csr.h"

static inline uint64_t in_both(const uint32_t *a, const uint32_t *a_end, const uint32_t *b,
                               const uint32_t *b_end)
{
    uint64_t count = 0;
    while (a < a_end && b < b_end) {
        uint32_t left = *a, right = *b;
        count += left == right;
        a += left <= right;
        b += right <= left;
    }
    return count;
}

static inline uint64_t triangles(const struct graph *graph)
{
    const uint32_t *target = graph->target;
    uint64_t count = 0;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        uint64_t start = graph->first[vertex], end = graph->first[vertex + 1UL];
        for (uint64_t edge = start; edge < end; edge++) {
            const uint64_t *other = &graph->first[target[edge]];
            count += in_both(target + start, target + end, target + other[0], target + other[1]);
        }
    }
    return count;
}

static inline void tc(const struct graph *graph, long rounds)
{
    uint64_t count = 0;
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        count += triangles(graph);
        print_round(round, start, (double)count);
    }
}

#endif
