/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "nodes.h"

#include <stdlib.h>

/* q35 splits memory at most once, at 4 GiB: a node has two ranges at most. */
#define RANGES_MAX (2 * NODES_MAX)

static struct range {
    uint64_t start, end;
    int node;
} ranges[RANGES_MAX];
static unsigned n_ranges;
static uint64_t latencies[NODES_MAX];
static uint64_t end_of_all;
static uint32_t n_nodes;

static const char *declare_range(const char *text, const char **rest, int node)
{
    char *next;
    uint64_t start = strtoull(text, &next, 0);
    if (next == text || *next != '-')
        return "a range is START-END";
    const char *second = next + 1;
    uint64_t end = strtoull(second, &next, 0);
    if (next == second || end <= start)
        return "a range is START-END with START below END";
    if (n_ranges == RANGES_MAX)
        return "too many ranges";
    ranges[n_ranges++] = (struct range){start, end, node};
    if (end > end_of_all)
        end_of_all = end;
    *rest = next;
    return NULL;
}

const char *nodes_declare(const char *text)
{
    char *next;
    unsigned long id = strtoul(text, &next, 0);
    if (next == text || *next != ':' || id >= NODES_MAX)
        return "a node is ID:LATENCY_NS:START-END, with an ID of 0 to 3";
    const char *second = next + 1;
    latencies[id] = strtoull(second, &next, 0);
    if (next == second || *next != ':')
        return "a node is ID:LATENCY_NS:START-END";
    if (id >= n_nodes)
        n_nodes = (uint32_t)id + 1;
    const char *rest = next;
    do {
        const char *wrong = declare_range(rest + 1, &rest, (int)id);
        if (wrong)
            return wrong;
    } while (*rest == '+');
    return *rest == '\0' ? NULL : "ranges are joined by +";
}

int nodes_of(uint64_t physical)
{
    for (unsigned i = 0; i < n_ranges; i++) {
        if (physical >= ranges[i].start && physical < ranges[i].end)
            return ranges[i].node;
    }
    return -1;
}

uint64_t nodes_latency(int node)
{
    return latencies[node];
}

uint64_t nodes_end(void)
{
    return end_of_all;
}

uint32_t nodes_count(void)
{
    return n_nodes;
}
