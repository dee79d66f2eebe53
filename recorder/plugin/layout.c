/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two sorted arrays of the same ranges: by the guest's address, to find one, and by the kernel's,
 * to find a gap.
 */
#include "layout.h"

#include <stdbool.h>
#include <string.h>

#include "grow.h"

/* mmap_base() of arch/x86/mm/mmap.c without randomisation: 128 MiB below the end of 47 bits. */
#define TOP UINT64_C(0x7ffff7fff000)

struct range {
    uint64_t guest, kernel, bytes;
};

struct ranges {
    struct range *all;
    size_t n, capacity;
};

static bool follows;
static struct ranges by_guest, by_kernel;

void layout_follow_kernel(void)
{
    follows = true;
}

static uint64_t key_of(const struct ranges *ranges, const struct range *range)
{
    return ranges == &by_guest ? range->guest : range->kernel;
}

/* Index of the first range that starts after a key. */
static size_t first_after(const struct ranges *ranges, uint64_t key)
{
    size_t low = 0, high = ranges->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (key_of(ranges, &ranges->all[middle]) > key)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert(struct ranges *ranges, struct range range)
{
    if (range.bytes == 0)
        return;
    size_t at = first_after(ranges, key_of(ranges, &range));
    GROW(ranges->all, ranges->capacity, ranges->n + 1);
    memmove(ranges->all + at + 1, ranges->all + at, (ranges->n - at) * sizeof *ranges->all);
    ranges->all[at] = range;
    ranges->n++;
}

static void remove_range(struct ranges *ranges, struct range range)
{
    size_t after = first_after(ranges, key_of(ranges, &range));
    struct range *at = ranges->all + after - 1;
    memmove(at, at + 1, (ranges->n - after) * sizeof *at);
    ranges->n--;
}

/* The place of so many bytes: the end of the highest gap that has room. */
static uint64_t highest_gap(uint64_t bytes)
{
    uint64_t end = TOP;
    for (size_t i = by_kernel.n; i-- > 0;) {
        const struct range *range = &by_kernel.all[i];
        if (end - (range->kernel + range->bytes) >= bytes)
            break;
        end = range->kernel;
    }
    return end - bytes;
}

void layout_map(uint64_t start, uint64_t bytes)
{
    if (!follows || bytes == 0)
        return;
    layout_unmap(start, bytes);
    struct range range = {start, highest_gap(bytes), bytes};
    insert(&by_guest, range);
    insert(&by_kernel, range);
}

void layout_unmap(uint64_t start, uint64_t bytes)
{
    uint64_t end = start + bytes;
    for (;;) {
        /* The last range that starts before the end. */
        size_t after = first_after(&by_guest, end - 1);
        if (bytes == 0 || after == 0)
            return;
        struct range range = by_guest.all[after - 1];
        uint64_t range_end = range.guest + range.bytes;
        if (range_end <= start)
            return;
        remove_range(&by_guest, range);
        remove_range(&by_kernel, range);
        uint64_t before = start > range.guest ? start - range.guest : 0;
        uint64_t behind = range_end > end ? range_end - end : 0;
        struct range head = {range.guest, range.kernel, before};
        struct range tail = {end, range.kernel + range.bytes - behind, behind};
        insert(&by_guest, head);
        insert(&by_kernel, head);
        insert(&by_guest, tail);
        insert(&by_kernel, tail);
        if (before > 0)
            return;
    }
}

uint64_t layout_address(uint64_t address)
{
    size_t after = first_after(&by_guest, address);
    if (after == 0)
        return address;
    const struct range *range = &by_guest.all[after - 1];
    uint64_t offset = address - range->guest;
    return offset < range->bytes ? range->kernel + offset : address;
}
