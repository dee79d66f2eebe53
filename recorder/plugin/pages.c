/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mapped pages are in a three-level table like the CPU's own, so that unmapping a huge, mostly
 * unused range skips untouched parts. File pages are few and are in a hash table.
 */
#include "pages.h"

#include <stddef.h>

#include "grow.h"
#include "window.h"

/* 9 bits as in a page-table leaf (4 KiB of entries cover 2 MiB); the rest in two equal levels. */
#define LEAF_BITS 9
#define MIDDLE_BITS 13
#define ROOT_BITS (ADDRESS_BITS - PAGE_SHIFT - MIDDLE_BITS - LEAF_BITS)

struct leaf {
    struct page_entry entries[1 << LEAF_BITS];
};
struct middle {
    struct leaf *leaves[1 << MIDDLE_BITS];
};
static struct middle *root[1 << ROOT_BITS];

struct file_slot {
    uint64_t vpn; /* 0: empty */
    struct page_entry *entry;
};
static struct file_slot *file_slots;
static size_t n_file_slots, file_pages;

static struct file_slot *find_file_slot(struct file_slot *slots, size_t n, uint64_t vpn)
{
    /* Fibonacci hashing: 2^64 divided by the golden ratio spreads consecutive numbers. */
    size_t i = (vpn * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (n - 1);
    while (slots[i].vpn != 0 && slots[i].vpn != vpn)
        i = (i + 1) & (n - 1);
    return &slots[i];
}

static void grow_file_slots(void)
{
    size_t larger = n_file_slots ? n_file_slots * 2 : 1024;
    struct file_slot *slots = checked_calloc(larger, sizeof *slots);
    for (size_t i = 0; i < n_file_slots; i++) {
        if (file_slots[i].vpn != 0)
            *find_file_slot(slots, larger, file_slots[i].vpn) = file_slots[i];
    }
    free(file_slots);
    file_slots = slots;
    n_file_slots = larger;
}

static struct page_entry *file_entry(uint64_t vpn)
{
    if (file_pages * 2 >= n_file_slots)
        grow_file_slots();
    struct file_slot *slot = find_file_slot(file_slots, n_file_slots, vpn);
    if (slot->vpn == 0) {
        slot->vpn = vpn;
        slot->entry = checked_calloc(1, sizeof *slot->entry);
        file_pages++;
    }
    return slot->entry;
}

struct page_entry *pages_entry(uint64_t vpn)
{
    if (vpn >= FILE_VPN_BASE)
        return file_entry(vpn);
    struct middle **middle = &root[vpn >> (MIDDLE_BITS + LEAF_BITS)];
    if (!*middle)
        *middle = checked_calloc(1, sizeof **middle);
    struct leaf **leaf = &(*middle)->leaves[vpn >> LEAF_BITS & ((1 << MIDDLE_BITS) - 1)];
    if (!*leaf)
        *leaf = checked_calloc(1, sizeof **leaf);
    return &(*leaf)->entries[vpn & ((1 << LEAF_BITS) - 1)];
}

bool pages_exist(uint64_t vpn)
{
    if (vpn >> (ADDRESS_BITS - PAGE_SHIFT) != 0)
        return false;
    const struct middle *middle = root[vpn >> (MIDDLE_BITS + LEAF_BITS)];
    const struct leaf *leaf =
        middle ? middle->leaves[vpn >> LEAF_BITS & ((1 << MIDDLE_BITS) - 1)] : NULL;
    return leaf && leaf->entries[vpn & ((1 << LEAF_BITS) - 1)].id_plus_one != 0;
}

void pages_visit(uint64_t first, uint64_t last,
                 void (*visit)(struct page_entry *entry, uint64_t vpn, void *data), void *data)
{
    const uint64_t limit = UINT64_C(1) << (ADDRESS_BITS - PAGE_SHIFT);
    if (last > limit)
        last = limit;
    for (uint64_t vpn = first; vpn < last;) {
        struct middle *middle = root[vpn >> (MIDDLE_BITS + LEAF_BITS)];
        if (!middle) {
            vpn = ((vpn >> (MIDDLE_BITS + LEAF_BITS)) + 1) << (MIDDLE_BITS + LEAF_BITS);
            continue;
        }
        struct leaf *leaf = middle->leaves[vpn >> LEAF_BITS & ((1 << MIDDLE_BITS) - 1)];
        if (!leaf) {
            vpn = ((vpn >> LEAF_BITS) + 1) << LEAF_BITS;
            continue;
        }
        struct page_entry *entry = &leaf->entries[vpn & ((1 << LEAF_BITS) - 1)];
        if (entry->id_plus_one != 0)
            visit(entry, vpn, data);
        vpn++;
    }
}

void pages_visit_files(void (*visit)(struct page_entry *entry, uint64_t vpn, void *data),
                       void *data)
{
    for (size_t i = 0; i < n_file_slots; i++) {
        if (file_slots[i].vpn != 0 && file_slots[i].entry->id_plus_one != 0)
            visit(file_slots[i].entry, file_slots[i].vpn, data);
    }
}
