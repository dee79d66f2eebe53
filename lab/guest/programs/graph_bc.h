/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Betweenness centrality (Brandes: J. of Mathematical Sociology 2001): a search from a source
 * counts shortest paths. A pass from the last vertex found back to the first then sums the paths
 * through each vertex. A round is one random source. The checksum is the sum of all scores so far.
 */
#ifndef TIERWISE_LAB_GRAPH_BC_H
#define TIERWISE_LAB_GRAPH_BC_H

#include "graph_csr.h"

#define NOT_FOUND UINT32_MAX

struct bc {
    const struct graph *graph;
    uint32_t *found; /* vertices in the order in which they were found */
    uint32_t *depth;
    double *paths, *through, *score;
};

static inline uint64_t count_paths(struct bc *bc, uint32_t source)
{
    const struct graph *graph = bc->graph;
    memset(bc->depth, 0xff, graph->vertices * sizeof *bc->depth);
    uint64_t head = 0, tail = 0;
    bc->found[tail++] = source;
    bc->depth[source] = 0;
    bc->paths[source] = 1;
    while (head < tail) {
        uint32_t vertex = bc->found[head++], below = bc->depth[vertex] + 1;
        for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++) {
            uint32_t other = graph->target[edge];
            if (bc->depth[other] == NOT_FOUND) {
                bc->depth[other] = below;
                bc->paths[other] = 0;
                bc->found[tail++] = other;
            }
            if (bc->depth[other] == below)
                bc->paths[other] += bc->paths[vertex];
        }
    }
    return tail;
}

/* Adds to the scores, and returns the sum of the additions. */
static inline double add_scores(struct bc *bc, uint64_t found)
{
    const struct graph *graph = bc->graph;
    double sum = 0;
    while (found-- > 1) { /* the source lies on no path between others */
        uint32_t vertex = bc->found[found], below = bc->depth[vertex] + 1;
        double through = 0;
        for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++) {
            uint32_t other = graph->target[edge];
            if (bc->depth[other] == below)
                through += bc->paths[vertex] / bc->paths[other] * (1 + bc->through[other]);
        }
        bc->through[vertex] = through;
        bc->score[vertex] += through;
        sum += through;
    }
    return sum;
}

static inline void bc(const struct graph *graph, long rounds)
{
    size_t vertices = graph->vertices;
    struct bc bc = {.graph = graph,
                    .found = filled_array(vertices, sizeof *bc.found),
                    .depth = filled_array(vertices, sizeof *bc.depth),
                    .paths = filled_array(vertices, sizeof *bc.paths),
                    .through = filled_array(vertices, sizeof *bc.through),
                    .score = filled_array(vertices, sizeof *bc.score)};
    uint64_t seed = RANDOM_SEED;
    double sum = 0;
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        sum += add_scores(&bc, count_paths(&bc, random_source(graph, &seed)));
        print_round(round, start, sum);
    }
}

#endif
