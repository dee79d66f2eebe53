/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A sorted array of disjoint file ranges. mmap and munmap change it, and each page allocation
 * searches it once, so moving its tail on an insertion is cheap enough.
 */
#include "mappings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "grow.h"

struct range {
    uint64_t start, end;
    enum mapping kind;
};

static struct range *ranges;
static size_t n_ranges, ranges_capacity;

/* Index of the first range that ends after address. */
static size_t first_ending_after(uint64_t address)
{
    size_t low = 0, high = n_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert_at(size_t index, struct range range)
{
    GROW(ranges, ranges_capacity, n_ranges + 1);
    memmove(ranges + index + 1, ranges + index, (n_ranges - index) * sizeof *ranges);
    ranges[index] = range;
    n_ranges++;
}

static void remove_at(size_t index)
{
    memmove(ranges + index, ranges + index + 1, (n_ranges - index - 1) * sizeof *ranges);
    n_ranges--;
}

void mappings_set(uint64_t start, uint64_t end, enum mapping kind)
{
    if (start >= end)
        return;
    size_t i = first_ending_after(start);
    if (i < n_ranges && ranges[i].start < start) {
        struct range head = {ranges[i].start, start, ranges[i].kind};
        ranges[i].start = start;
        insert_at(i++, head);
    }
    while (i < n_ranges && ranges[i].end <= end)
        remove_at(i);
    if (i < n_ranges && ranges[i].start < end)
        ranges[i].start = end;
    if (kind != MAPPING_ANON)
        insert_at(i, (struct range){start, end, kind});
}

enum mapping mappings_kind(uint64_t address)
{
    size_t i = first_ending_after(address);
    return i < n_ranges && ranges[i].start <= address ? ranges[i].kind : MAPPING_ANON;
}

void mappings_read_initial(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return;
    /* PATH_MAX, and the columns before the name. */
    char line[4096 + 128];
    while (fgets(line, sizeof line, maps)) {
        uint64_t start, end, inode;
        char permissions[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64, &start, &end,
                   permissions, &inode) != 4)
            continue;
        if (inode != 0)
            mappings_set(start, end,
                         permissions[3] == 's' ? MAPPING_FILE_SHARED : MAPPING_FILE_PRIVATE);
    }
    fclose(maps);
}
