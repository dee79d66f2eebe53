/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shortest paths by delta-stepping (Meyer, Sanders: ESA 1998): vertices wait in buckets of DELTA
 * lengths each, and the nearest bucket is processed until it stays empty. A round finds all paths
 * from a random source. The checksum is the sum of all lengths so far.
 */
#ifndef TIERWISE_LAB_GRAPH_SSSP_H
#define TIERWISE_LAB_GRAPH_SSSP_H

#include "graph_csr.h"

/* GAP's edges have lengths from 1 to 255. */
#define MAX_LENGTH 255
/* An eighth of the longest edge: few vertices return to their bucket, and few buckets are empty. */
#define DELTA 32
/* The lengths of two waiting vertices differ by less than DELTA + MAX_LENGTH, which is nine
 * buckets; the next power of two. */
#define BUCKETS 16U
#define NOWHERE UINT32_MAX

/* Rings of vertices, one per bucket; the heads' numbers follow the vertices'. */
struct waiting {
    uint32_t heads, *next, *before; /* next is NOWHERE for a vertex that does not wait */
    uint64_t count;
};

struct sssp {
    const struct graph *graph;
    uint8_t *edge_length;
    uint32_t *length; /* of the shortest path known */
    struct waiting waiting;
};

static inline void wait_in(struct waiting *waiting, uint32_t vertex, uint32_t bucket)
{
    uint32_t head = waiting->heads + bucket % BUCKETS, after = waiting->next[head];
    waiting->next[vertex] = after;
    waiting->before[vertex] = head;
    waiting->next[head] = waiting->before[after] = vertex;
    waiting->count++;
}

static inline void wait_no_more(struct waiting *waiting, uint32_t vertex)
{
    uint32_t next = waiting->next[vertex], before = waiting->before[vertex];
    waiting->next[before] = next;
    waiting->before[next] = before;
    waiting->next[vertex] = NOWHERE;
    waiting->count--;
}

static inline void shorten(struct sssp *sssp, uint32_t vertex, uint32_t length)
{
    if (length >= sssp->length[vertex])
        return;
    if (sssp->waiting.next[vertex] != NOWHERE)
        wait_no_more(&sssp->waiting, vertex);
    sssp->length[vertex] = length;
    wait_in(&sssp->waiting, vertex, length / DELTA);
}

static inline void sssp_from(struct sssp *sssp, uint32_t source)
{
    const struct graph *graph = sssp->graph;
    struct waiting *waiting = &sssp->waiting;
    memset(sssp->length, 0xff, graph->vertices * sizeof *sssp->length);
    shorten(sssp, source, 0);
    for (uint32_t bucket = 0; waiting->count; bucket++) {
        uint32_t head = waiting->heads + bucket % BUCKETS, vertex;
        while ((vertex = waiting->next[head]) != head) {
            wait_no_more(waiting, vertex);
            uint32_t length = sssp->length[vertex];
            for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++)
                shorten(sssp, graph->target[edge], length + sssp->edge_length[edge]);
        }
    }
}

static inline struct sssp sssp_of(const struct graph *graph)
{
    size_t rings = graph->vertices + BUCKETS;
    struct sssp sssp = {.graph = graph,
                        .edge_length = array(graph->edges, sizeof *sssp.edge_length),
                        .length = filled_array(graph->vertices, sizeof *sssp.length),
                        .waiting = {.heads = graph->vertices,
                                    .next = filled_array(rings, sizeof(uint32_t)),
                                    .before = filled_array(rings, sizeof(uint32_t))}};
    uint64_t seed = RANDOM_SEED;
    for (uint64_t edge = 0; edge < graph->edges; edge++)
        sssp.edge_length[edge] = (uint8_t)(1 + (random_next(&seed) >> 11) % MAX_LENGTH);
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        sssp.waiting.next[vertex] = NOWHERE;
    for (uint32_t head = sssp.waiting.heads; head < rings; head++)
        sssp.waiting.next[head] = sssp.waiting.before[head] = head;
    return sssp;
}

static inline void sssp(const struct graph *graph, long rounds)
{
    struct sssp sssp = sssp_of(graph);
    uint64_t seed = RANDOM_SEED, sum = 0;
    print_filled(graph);
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        sssp_from(&sssp, random_source(graph, &seed));
        for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
            sum += sssp.length[vertex] == UINT32_MAX ? 0 : sssp.length[vertex];
        print_round(round, start, (double)sum);
    }
}

#endif
