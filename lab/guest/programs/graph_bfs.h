/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Breadth-first search: a round is a search from a random source. The checksum is the number of
 * vertices reached so far, counted once per search. */
#ifndef TIERWISE_LAB_GRAPH_BFS_H
#define TIERWISE_LAB_GRAPH_BFS_H

#include "graph_csr.h"

static inline uint64_t bfs_from(const struct graph *graph, uint32_t root, uint32_t *queue,
                                uint8_t *seen)
{
    memset(seen, 0, graph->vertices);
    uint64_t head = 0, tail = 0;
    queue[tail++] = root;
    seen[root] = 1;
    while (head < tail) {
        uint32_t vertex = queue[head++];
        for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++) {
            uint32_t other = graph->target[edge];
            if (!seen[other]) {
                seen[other] = 1;
                queue[tail++] = other;
            }
        }
    }
    return tail;
}

static inline void bfs(const struct graph *graph, long rounds)
{
    uint32_t *queue = filled_array(graph->vertices, sizeof *queue);
    uint8_t *seen = filled_array(graph->vertices, sizeof *seen);
    uint64_t seed = RANDOM_SEED, reached = 0;
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        reached += bfs_from(graph, random_source(graph, &seed), queue, seen);
        print_round(round, start, (double)reached);
    }
}

#endif
