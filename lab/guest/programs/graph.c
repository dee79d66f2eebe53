/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * graph SCALE DEGREE ROUNDS [KERNEL]: a graph kernel, one of those of GAP (Beamer, Asanovic,
 * Patterson, 2015), over a random power-law graph of 2^SCALE vertices, each with DEGREE edges on
 * average. Few vertices have most edges, and their data are the hot memory.
 *
 *   pagerank   a round is an iteration (the default)
 *   bfs        breadth-first search: a round is a source
 *   sssp       shortest paths by delta-stepping: a round is a source
 *   cc         connected components by Afforest: a round finds all
 *   bc         betweenness centrality by Brandes: a round is a source
 *   tc         triangle counting: a round counts all
 *
 * It prints a JSON line when its memory is filled, and one per round with its seconds and a
 * checksum, which depends only on the arguments.
 */
#include "graph_bc.h"
#include "graph_bfs.h"
#include "graph_cc.h"
#include "graph_pagerank.h"
#include "graph_sssp.h"
#include "graph_tc.h"

#define NAMES "pagerank, bfs, sssp, cc, bc, tc"

static const struct kernel {
    const char *name;
    enum lists lists;
    void (*run)(const struct graph *graph, long rounds);
} kernels[] = {{"pagerank", TO, pagerank}, {"bfs", TO, bfs}, {"sssp", TO, sssp},
               {"cc", BOTH, cc},           {"bc", TO, bc},   {"tc", ORDERED, tc}};

static const struct kernel *kernel_of(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    }
    fail("'%s' is no kernel of this program; one of: " NAMES, name);
}

int main(int count, char **words)
{
    if (count < 4 || count > 5)
        fail("usage: graph SCALE DEGREE ROUNDS [KERNEL], for example: graph 18 16 5; KERNEL is "
             "one of: " NAMES);
    long scale = number_of("SCALE", words[1], 1), degree = number_of("DEGREE", words[2], 1);
    long rounds = number_of("ROUNDS", words[3], 1);
    const struct kernel *kernel = kernel_of(count > 4 ? words[4] : "pagerank");
    if (scale > 28)
        fail("SCALE: %ld is more than 28, which no guest of the lab has memory for", scale);
    struct graph graph = generate((unsigned)scale, (uint64_t)degree, kernel->lists);
    kernel->run(&graph, rounds);
    return 0;
}
