/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* PageRank by power iteration: in each round every vertex sums the shares of the vertices that
 * point to it. */
#ifndef TIERWISE_LAB_GRAPH_PAGERANK_H
#define TIERWISE_LAB_GRAPH_PAGERANK_H

#include "graph_csr.h"
#include "progress.h"

/* Brin and Page's damping. */
#define DAMPING 0.85

/* `done` counts edges, of all rounds. */
static inline double pagerank_round(const struct graph *graph, const double *share, double *rank,
                                    volatile uint64_t *done)
{
    double sum = 0;
    uint64_t before = *done;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        *done = before + graph->first[vertex];
        double gathered = 0;
        for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++)
            gathered += share[graph->target[edge]];
        rank[vertex] = (1 - DAMPING) / graph->vertices + DAMPING * gathered;
        sum += rank[vertex];
    }
    *done = before + graph->edges;
    return sum;
}

static inline void pagerank(const struct graph *graph, long rounds)
{
    double *share = filled_array(graph->vertices, sizeof *share),
           *rank = filled_array(graph->vertices, sizeof *rank);
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        rank[vertex] = 1.0 / graph->vertices;
    volatile uint64_t *done = progress();
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
            share[vertex] = graph->degree[vertex] ? rank[vertex] / graph->degree[vertex] : 0;
        print_round(round, start, pagerank_round(graph, share, rank, done));
    }
}

#endif
