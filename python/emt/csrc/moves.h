#ifndef TIERWISE_EMT_MOVES_H
#define TIERWISE_EMT_MOVES_H

#include <stdbool.h>
#include <stdint.h>

/* True if a node (0 or more) is in a set with a bit for each of the first 64 nodes; a later node is
 * in no set. */
static inline bool node_in(uint64_t nodes, int node)
{
    return node < 64 && (nodes >> node & 1);
}

/* Writes the node of each page, or an error number below zero, into `status`. Returns -1 and sets
 * errno if the call itself failed. */
int where_pages(unsigned long count, void **addresses, int *status);

#endif
