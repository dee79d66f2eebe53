/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The true misses, in a file of the host that the guest maps as the memory of a device.
 *
 * One 4 KiB page of `struct counters`, then `pages` counts of 32 bits: the misses of each physical
 * page, by page number. lab/guest/tierguest/truth.py reads the same layout. It is written without
 * locks: counts are exact with one vCPU, and with several a count is rarely lost.
 */
#ifndef TIERWISE_COUNTERS_H
#define TIERWISE_COUNTERS_H

#include <stdint.h>

#include "nodes.h"

/* "TIERMEM4": changes with the layout. */
#define COUNTERS_MAGIC UINT64_C(0x344d454d52454954)
#define COUNTERS_PAGE_BYTES 4096
#define COUNTERS_PAGE_SHIFT 12
/* The curve of heat.h, in steps of 512 KiB up to 128 MiB: the bench's programs have less. */
#define CURVE_STEP_PAGES 128
#define CURVE_STEPS 256

struct counters {
    uint64_t magic;
    uint64_t pages;
    uint64_t nodes;
    uint64_t charged_ns;
    uint64_t tlb_flushes;
    uint64_t wanted;   /* written by the guest: 1 requests monitoring of its accesses from now on */
    uint64_t watching; /* 1 when they are monitored */
    uint64_t
        loads[NODES_MAX]; /* that missed the small cache in front; of all programs and the kernel */
    uint64_t stores[NODES_MAX];
    uint64_t load_misses[NODES_MAX]; /* that missed the last-level cache */
    uint64_t store_misses[NODES_MAX];
    /* Misses by user addresses: without the kernel's own, which copy pages when they move. */
    uint64_t user_misses[NODES_MAX];
    uint64_t curve_asked; /* written by the guest: one more requests the curve since the last */
    uint64_t curve_given; /* the last request that was answered */
    uint64_t curve_total; /* all misses of user programs between the two last requests */
    /* Those of the (i + 1) * CURVE_STEP_PAGES pages that had the most. */
    uint64_t curve[CURVE_STEPS];
};

/* Maps the file, which must have space for the counters of `pages` pages. Without a path the
 * counters are in memory. Returns NULL or the error. */
const char *counters_open(const char *path, uint64_t pages);

/* Returns the counters; never NULL after counters_open. */
struct counters *counters(void);

/* Returns the counter of a page's misses; physical page numbers at or above `pages` are not
 * counted. */
uint32_t *counters_of_page(uint64_t page);

#endif
