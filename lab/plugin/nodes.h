/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory node of a physical address, and the cost of a miss there. */
#ifndef TIERWISE_NODES_H
#define TIERWISE_NODES_H

#include <stdint.h>

/* The lab's guests have two or three; counters.h has a row for each. */
#define NODES_MAX 4

/* Declares a node from "ID:LATENCY_NS:START-END[+START-END...]", addresses in bytes. Returns
 * NULL or the error. */
const char *nodes_declare(const char *text);

/* Returns the node of an address, or -1 for memory of no node: firmware, devices. */
int nodes_of(uint64_t physical);

/* Returns the nanoseconds that a miss in this node takes. */
uint64_t nodes_latency(int node);

/* Returns the end of the highest range, in bytes. */
uint64_t nodes_end(void);

/* Returns the number of nodes: one more than the highest id declared. */
uint32_t nodes_count(void);

#endif
