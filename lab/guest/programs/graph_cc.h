/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Connected components as Afforest finds them (Sutton, Ben-Nun, Barak: IPDPS 2018): two edges of
 * each vertex connect most of the graph. Vertices in the largest component then skip their other
 * edges. It needs lists of both ends. Each round finds all components again. The checksum is the
 * sum of all vertices' components so far; a component's number is its lowest vertex.
 */
#ifndef TIERWISE_LAB_GRAPH_CC_H
#define TIERWISE_LAB_GRAPH_CC_H

#include "graph_csr.h"

/* Afforest's own value. */
#define FIRST_EDGES 2
/* Sampled vertices: they practically always find a component that has a tenth of the graph. */
#define ASKED 256

static inline uint32_t component_of(uint32_t *parent, uint32_t vertex)
{
    while (parent[vertex] != vertex)
        vertex = parent[vertex] = parent[parent[vertex]];
    return vertex;
}

static inline void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = component_of(parent, a);
    b = component_of(parent, b);
    /* The lower number stays the root, for any order of joins. */
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
}

/* Returns the component that contains most of the sampled vertices. */
static inline uint32_t largest_component(const struct graph *graph, uint32_t *parent,
                                         uint64_t *seed)
{
    uint32_t asked[ASKED], largest = 0;
    int most = 0;
    for (int i = 0; i < ASKED; i++)
        asked[i] = component_of(parent, (uint32_t)(random_next(seed) % graph->vertices));
    for (int i = 0; i < ASKED; i++) {
        int same = 0;
        for (int j = 0; j < ASKED; j++)
            same += asked[i] == asked[j];
        if (same > most) {
            most = same;
            largest = asked[i];
        }
    }
    return largest;
}

static inline void find_components(const struct graph *graph, uint32_t *parent, uint64_t *seed)
{
    const uint64_t *first = graph->first;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        parent[vertex] = vertex;
    for (uint64_t nth = 0; nth < FIRST_EDGES; nth++) {
        for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
            if (first[vertex] + nth < first[vertex + 1UL])
                join(parent, vertex, graph->target[first[vertex] + nth]);
        }
    }
    uint32_t largest = largest_component(graph, parent, seed);
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        if (component_of(parent, vertex) == component_of(parent, largest))
            continue;
        for (uint64_t edge = first[vertex] + FIRST_EDGES; edge < first[vertex + 1UL]; edge++)
            join(parent, vertex, graph->target[edge]);
    }
}

static inline void cc(const struct graph *graph, long rounds)
{
    uint32_t *parent = filled_array(graph->vertices, sizeof *parent);
    uint64_t seed = RANDOM_SEED, sum = 0;
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        find_components(graph, parent, &seed);
        for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
            sum += component_of(parent, vertex);
        print_round(round, start, (double)sum);
    }
}

#endif
