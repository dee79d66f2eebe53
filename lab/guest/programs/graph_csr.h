/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The graph of graph.c's kernels: a random power-law graph (Chakrabarti, Zhan, Faloutsos: R-MAT,
 * SDM 2004, with the Graph500 probabilities), with the neighbours of each vertex in one contiguous
 * part of an array.
 */
#ifndef TIERWISE_LAB_GRAPH_CSR_H
#define TIERWISE_LAB_GRAPH_CSR_H

#include "common.h"

/* The Graph500 benchmark's probabilities: A = 0.57, B = C = 0.19, in 65536ths. */
enum { A = 37356, AB = 49807, ABC = 62259 };

/* The vertices of an edge that list the other vertex. */
enum lists {
    TO,     /* the vertex to which it points */
    BOTH,   /* both */
    ORDERED /* the one with fewer edges; ascending, once each, without loops */
};

struct graph {
    uint32_t vertices;
    uint64_t edges;
    uint64_t *first;  /* vertices + 1 offsets into `target` */
    uint32_t *target; /* the lists, one after the other */
    uint32_t *degree; /* edges that leave each vertex; of BOTH and ORDERED, all of its edges */
    double began;     /* when building began */
};

/* Counts or places a list entry of an edge. */
typedef void take_entry(struct graph *graph, uint64_t *next, uint32_t owner, uint32_t other);

static inline void *array(size_t count, size_t size)
{
    char *memory =
        mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap of %zu bytes: %s", count * size, strerror(errno));
    madvise(memory, count * size, MADV_NOHUGEPAGE);
    return memory;
}

/* Returns an array of a kernel whose pages are touched before the kernel starts. */
static inline void *filled_array(size_t count, size_t size)
{
    return memset(array(count, size), 0, count * size);
}

static inline void random_edge(uint64_t *seed, unsigned scale, uint32_t *from, uint32_t *to)
{
    *from = *to = 0;
    for (unsigned bit = 0; bit < scale; bit++) {
        unsigned draw = random_next(seed) >> 48;
        *from = *from << 1 | (draw >= AB);
        *to = *to << 1 | ((draw >= A && draw < AB) || draw >= ABC);
    }
}

/* Counts the degrees for ORDERED, which needs them before it can order an edge. */
static inline void count_degrees(struct graph *graph, unsigned scale)
{
    uint32_t from, to;
    uint64_t seed = RANDOM_SEED;
    for (uint64_t edge = 0; edge < graph->edges; edge++) {
        random_edge(&seed, scale, &from, &to);
        graph->degree[from]++;
        graph->degree[to]++;
    }
}

static inline void count_with_degree(struct graph *graph, uint64_t *next, uint32_t owner,
                                     uint32_t other)
{
    (void)next;
    graph->degree[other]++;
    graph->first[owner + 1UL]++;
}

static inline void count_entry(struct graph *graph, uint64_t *next, uint32_t owner, uint32_t other)
{
    (void)next, (void)other;
    graph->first[owner + 1UL]++;
}

static inline void place_entry(struct graph *graph, uint64_t *next, uint32_t owner, uint32_t other)
{
    graph->target[next[owner]++] = other;
}

/* Draws all edges from the same seed. Drawing them twice avoids a list of edges. */
static inline void each_entry(struct graph *graph, unsigned scale, enum lists lists,
                              take_entry *take, uint64_t *next)
{
    uint32_t from, to;
    uint64_t seed = RANDOM_SEED;
    for (uint64_t edge = 0; edge < graph->edges; edge++) {
        random_edge(&seed, scale, &from, &to);
        if (lists == TO) {
            take(graph, next, to, from);
        } else if (lists == BOTH) {
            take(graph, next, to, from);
            take(graph, next, from, to);
        } else if (from != to) {
            uint32_t a = graph->degree[from], b = graph->degree[to];
            int from_first = a < b || (a == b && from < to);
            take(graph, next, from_first ? from : to, from_first ? to : from);
        }
    }
}

static inline int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Sorts each list, drops duplicates, and frees the memory that this leaves. */
static inline void sort_lists(struct graph *graph)
{
    uint64_t start = 0, kept = 0, held = graph->first[graph->vertices];
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        uint64_t end = graph->first[vertex + 1UL];
        qsort(graph->target + start, end - start, sizeof *graph->target, by_number);
        graph->first[vertex] = kept;
        for (uint64_t at = start; at < end; at++) {
            if (at == start || graph->target[at] != graph->target[kept - 1])
                graph->target[kept++] = graph->target[at];
        }
        start = end;
    }
    graph->first[graph->vertices] = kept;
    uintptr_t used = ((uintptr_t)(graph->target + kept) + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    uintptr_t end = (uintptr_t)(graph->target + held);
    if (used < end)
        munmap((void *)used, end - used);
}

static inline struct graph generate(unsigned scale, uint64_t per_vertex, enum lists lists)
{
    struct graph graph = {.vertices = 1U << scale, .edges = per_vertex << scale, .began = now_s()};
    size_t vertices = graph.vertices;
    graph.first = array(vertices + 1, sizeof *graph.first);
    graph.target = array(lists == BOTH ? 2 * graph.edges : graph.edges, sizeof *graph.target);
    graph.degree = array(vertices, sizeof *graph.degree);
    if (lists == ORDERED)
        count_degrees(&graph, scale);
    each_entry(&graph, scale, lists, lists == ORDERED ? count_entry : count_with_degree, NULL);
    for (uint32_t vertex = 0; vertex < graph.vertices; vertex++)
        graph.first[vertex + 1UL] += graph.first[vertex];
    uint64_t *next = array(vertices, sizeof *next);
    memcpy(next, graph.first, vertices * sizeof *next);
    each_entry(&graph, scale, lists, place_entry, next);
    munmap(next, vertices * sizeof *next);
    if (lists == ORDERED)
        sort_lists(&graph);
    return graph;
}

/* A kernel calls this when it has all its memory and starts its work. */
static inline void print_filled(const struct graph *graph)
{
    printf("{\"vertices\": %u, \"edges\": %lu, \"pid\": %d, \"build_seconds\": %.6f}\n",
           graph->vertices, graph->edges, getpid(), now_s() - graph->began);
    fflush(stdout);
}

static inline void print_round(long round, double start, double checksum)
{
    printf("{\"round\": %ld, \"seconds\": %.6f, \"checksum\": %.12g}\n", round, now_s() - start,
           checksum);
    fflush(stdout);
}

/* Returns a random vertex with a list, the start of a search; the graph has such vertices. */
static inline uint32_t random_source(const struct graph *graph, uint64_t *seed)
{
    uint32_t source;
    do
        source = (uint32_t)(random_next(seed) % graph->vertices);
    while (graph->first[source] == graph->first[source + 1UL]);
    return source;
}

#endif
