/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * graph SCALE DEGREE ROUNDS [pagerank|bfs]: a graph kernel over a random power-law graph of 2^SCALE
 * vertices, each with DEGREE edges on average (Chakrabarti, Zhan, Faloutsos: R-MAT, SDM 2004, with
 * the Graph500 probabilities). Few vertices have most edges: their ranks are the hot memory. Prints
 * a JSON line a round with its seconds and a checksum, which depends on the arguments alone.
 */
#include "common.h"

/* The Graph500 benchmark's: A = 0.57, B = C = 0.19, in 65536ths. */
enum { A = 37356, AB = 49807, ABC = 62259 };
/* Brin and Page's damping. */
#define DAMPING 0.85

struct graph {
    uint32_t vertices;
    uint64_t edges;
    uint64_t *first;  /* vertices + 1 offsets into `target` */
    uint32_t *target; /* of each vertex, those that point to it */
    uint32_t *degree; /* edges that leave each vertex */
};

static void *array(size_t count, size_t size)
{
    char *memory =
        mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap of %zu bytes: %s", count * size, strerror(errno));
    madvise(memory, count * size, MADV_NOHUGEPAGE);
    return memory;
}

static void random_edge(uint64_t *seed, unsigned scale, uint32_t *from, uint32_t *to)
{
    *from = *to = 0;
    for (unsigned bit = 0; bit < scale; bit++) {
        unsigned draw = random_next(seed) >> 48;
        *from = *from << 1 | (draw >= AB);
        *to = *to << 1 | ((draw >= A && draw < AB) || draw >= ABC);
    }
}

/* Drawn twice from one seed, once to count and once to place, so that no edge list is held. */
static struct graph generate(unsigned scale, uint64_t per_vertex)
{
    struct graph graph = {.vertices = 1U << scale, .edges = per_vertex << scale};
    graph.first = array(graph.vertices + 1UL, sizeof *graph.first);
    graph.target = array(graph.edges, sizeof *graph.target);
    graph.degree = array(graph.vertices, sizeof *graph.degree);
    uint32_t from, to;
    uint64_t seed = RANDOM_SEED;
    for (uint64_t edge = 0; edge < graph.edges; edge++) {
        random_edge(&seed, scale, &from, &to);
        graph.degree[from]++;
        graph.first[to + 1UL]++;
    }
    for (uint32_t vertex = 0; vertex < graph.vertices; vertex++)
        graph.first[vertex + 1UL] += graph.first[vertex];
    uint64_t *next = array(graph.vertices, sizeof *next);
    memcpy(next, graph.first, graph.vertices * sizeof *next);
    seed = RANDOM_SEED;
    for (uint64_t edge = 0; edge < graph.edges; edge++) {
        random_edge(&seed, scale, &from, &to);
        graph.target[next[to]++] = from;
    }
    munmap(next, graph.vertices * sizeof *next);
    return graph;
}

static double pagerank_round(const struct graph *graph, const double *share, double *rank)
{
    double sum = 0;
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++) {
        double gathered = 0;
        for (uint64_t edge = graph->first[vertex]; edge < graph->first[vertex + 1UL]; edge++)
            gathered += share[graph->target[edge]];
        rank[vertex] = (1 - DAMPING) / graph->vertices + DAMPING * gathered;
        sum += rank[vertex];
    }
    return sum;
}

static void report(long round, double start, double checksum)
{
    printf("{\"round\": %ld, \"seconds\": %.6f, \"checksum\": %.9g}\n", round, now_s() - start,
           checksum);
    fflush(stdout);
}

static void pagerank(const struct graph *graph, long rounds)
{
    double *share = array(graph->vertices, sizeof *share),
           *rank = array(graph->vertices, sizeof *rank);
    for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
        rank[vertex] = 1.0 / graph->vertices;
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        for (uint32_t vertex = 0; vertex < graph->vertices; vertex++)
            share[vertex] = graph->degree[vertex] ? rank[vertex] / graph->degree[vertex] : 0;
        report(round, start, pagerank_round(graph, share, rank));
    }
}

static uint64_t bfs_from(const struct graph *graph, uint32_t root, uint32_t *queue, uint8_t *seen)
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

static void bfs(const struct graph *graph, long rounds)
{
    uint32_t *queue = array(graph->vertices, sizeof *queue);
    uint8_t *seen = array(graph->vertices, sizeof *seen);
    uint64_t seed = RANDOM_SEED;
    for (long round = 0; round < rounds; round++) {
        double start = now_s();
        uint32_t root;
        do
            root = (uint32_t)(random_next(&seed) % graph->vertices);
        while (graph->first[root] ==
               graph->first[root + 1UL]); /* one with edges: the graph has some */
        report(round, start, (double)bfs_from(graph, root, queue, seen));
    }
}

int main(int count, char **words)
{
    if (count < 4 || count > 5)
        fail("usage: graph SCALE DEGREE ROUNDS [pagerank|bfs], for example: graph 18 16 5");
    long scale = number_of("SCALE", words[1], 1), degree = number_of("DEGREE", words[2], 1);
    long rounds = number_of("ROUNDS", words[3], 1);
    const char *kernel = count > 4 ? words[4] : "pagerank";
    if (scale > 28)
        fail("SCALE: %ld is more than 28, which no guest of the lab has memory for", scale);
    if (strcmp(kernel, "pagerank") != 0 && strcmp(kernel, "bfs") != 0)
        fail("'%s' is no kernel of this program; one of: pagerank, bfs", kernel);
    double start = now_s();
    struct graph graph = generate((unsigned)scale, (uint64_t)degree);
    printf("{\"vertices\": %u, \"edges\": %lu, \"pid\": %d, \"build_seconds\": %.6f}\n",
           graph.vertices, graph.edges, getpid(), now_s() - start);
    fflush(stdout);
    if (strcmp(kernel, "bfs") == 0)
        bfs(&graph, rounds);
    else
        pagerank(&graph, rounds);
    return 0;
}
