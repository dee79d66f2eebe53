/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "heat.h"

#include <stdlib.h>

#include "counters.h"

/* Four times the pages of the largest guest's memory (512 MiB), so that searches are short. A power
 * of two. */
#define SLOTS (UINT32_C(1) << 19)
/* Fibonacci hashing: 2^64 divided by the golden ratio spreads neighbours. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

static struct slot {
    uint64_t page; /* plus one */
    uint32_t misses;
} slots[SLOTS];
static uint32_t used[SLOTS / 2];
static uint32_t n_used;
static uint64_t total;

static struct slot *slot_of(uint64_t page)
{
    uint32_t at = (uint32_t)((page * SPREAD) >> 45);
    while (slots[at].page != 0 && slots[at].page != page + 1)
        at = (at + 1) % SLOTS;
    if (slots[at].page == 0) {
        if (n_used == SLOTS / 2)
            return NULL;
        slots[at].page = page + 1;
        used[n_used++] = at;
    }
    return &slots[at];
}

void heat_count(uint64_t address)
{
    total++;
    struct slot *slot = slot_of(address >> COUNTERS_PAGE_SHIFT);
    if (slot)
        slot->misses++;
}

static int hotter(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a < b) - (a > b);
}

/* Empties the table, and leaves the counts in `used`, the highest first. */
static void sort_counts(void)
{
    for (uint32_t i = 0; i < n_used; i++) {
        struct slot *slot = &slots[used[i]];
        used[i] = slot->misses;
        *slot = (struct slot){0};
    }
    qsort(used, n_used, sizeof *used, hotter);
}

void heat_answer(void)
{
    struct counters *counts = counters();
    uint64_t asked = __atomic_load_n(&counts->curve_asked, __ATOMIC_ACQUIRE);
    if (asked == counts->curve_given)
        return;
    sort_counts();
    uint64_t sum = 0;
    for (uint32_t step = 0, i = 0; step < CURVE_STEPS; step++) {
        for (; i < n_used && i < (step + 1) * CURVE_STEP_PAGES; i++)
            sum += used[i];
        counts->curve[step] = sum;
    }
    counts->curve_total = total;
    n_used = 0;
    total = 0;
    __atomic_store_n(&counts->curve_given, asked, __ATOMIC_RELEASE);
}
