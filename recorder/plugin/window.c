/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window.h"

#include <string.h>

#include "../common/cache_model.h"
#include "grow.h"
#include "layout.h"
#include "mappings.h"
#include "objects.h"
#include "pages.h"

/*
 * A direct-mapped cache of page lookups. 4096 entries cover 16 MiB of 4 KiB pages. With 16 bytes
 * each they fit the host's second-level cache beside the modelled cache's tags.
 */
#define LOOKUPS 4096
struct lookup {
    uint64_t vpn; /* 0 matches nothing: no program maps the zero page */
    uint32_t row;
    uint32_t cow;
};
static struct lookup lookups[LOOKUPS];

static struct cache_model llc;
static uint32_t next_page;

static struct wire_access *rows;
static size_t n_rows, rows_capacity;
static struct wire_allocation *allocations;
static size_t n_allocations, allocations_capacity;
static uint32_t *unmaps;
static size_t n_unmaps, unmaps_capacity;

const char *window_init(uint64_t llc_bytes, uint32_t llc_ways)
{
    return cache_model_init(&llc, llc_bytes, llc_ways, LINE_BYTES);
}

static void forget_lookups(void)
{
    memset(lookups, 0, sizeof lookups);
}

static void bear(struct page_entry *entry, uint64_t vpn, bool store, uint16_t thread)
{
    enum mapping mapping =
        vpn >= FILE_VPN_BASE ? MAPPING_FILE_SHARED : mappings_kind(vpn << PAGE_SHIFT);
    /* A store to a private file page copies it, and the remaining page is anonymous. */
    bool file = mapping == MAPPING_FILE_SHARED || (mapping == MAPPING_FILE_PRIVATE && !store);
    if (next_page == UINT32_MAX)
        fatal("more than 2^32 pages were allocated in one recording");
    GROW(allocations, allocations_capacity, n_allocations + 1);
    uint64_t reported =
        vpn >= FILE_VPN_BASE ? vpn : layout_address(vpn << PAGE_SHIFT) >> PAGE_SHIFT;
    allocations[n_allocations++] = (struct wire_allocation){
        .vpn = reported, .page = next_page, .thread = thread, .kind = file ? WIRE_FILE : WIRE_ANON};
    entry->id_plus_one = ++next_page;
    entry->cow = file && mapping == MAPPING_FILE_PRIVATE;
}

static void end_page(struct page_entry *entry)
{
    GROW(unmaps, unmaps_capacity, n_unmaps + 1);
    unmaps[n_unmaps++] = entry->id_plus_one - 1;
    if (objects_followed())
        objects_end(entry->id_plus_one - 1);
    entry->id_plus_one = 0;
    entry->cow = 0;
}

/* Returns the row of the page at vpn, and allocates the page or its row if it does not exist. */
static uint32_t resolve(uint64_t vpn, bool store, uint16_t thread)
{
    struct page_entry *entry = pages_entry(vpn);
    if (entry->cow && store)
        end_page(entry);
    if (entry->id_plus_one == 0)
        bear(entry, vpn, store, thread);
    uint32_t page = entry->id_plus_one - 1;
    if (entry->row >= n_rows || rows[entry->row].page != page) {
        GROW(rows, rows_capacity, n_rows + 1);
        rows[n_rows] = (struct wire_access){.page = page, .thread = thread};
        entry->row = (uint32_t)n_rows++;
    }
    struct lookup *lookup = &lookups[vpn % LOOKUPS];
    *lookup = (struct lookup){.vpn = vpn, .row = entry->row, .cow = entry->cow};
    return entry->row;
}

static inline struct wire_access *row_of(uint64_t vpn, bool store, uint16_t thread)
{
    const struct lookup *lookup = &lookups[vpn % LOOKUPS];
    if (__builtin_expect(lookup->vpn == vpn && !(lookup->cow && store), 1))
        return &rows[lookup->row];
    uint32_t index = resolve(vpn, store, thread); /* may move the rows */
    return &rows[index];
}

/*
 * The cache is indexed by page number in allocation order, as if the kernel allocated physical
 * pages in sequence; with virtual addresses, page-aligned heaps and stacks would collide.
 */
static inline void access_cache(struct wire_access *row, uint64_t line_in_page, bool store)
{
    uint64_t line = (uint64_t)row->page << (PAGE_SHIFT - LINE_SHIFT) | line_in_page;
    if (cache_model_access(&llc, line)) {
        if (store)
            row->store_misses++;
        else
            row->load_misses++;
    }
}

static inline void count(struct wire_access *row, bool store, uint16_t thread, uint32_t accesses)
{
    if (store)
        row->stores += accesses;
    else
        row->loads += accesses;
    row->thread = thread;
}

void window_access(uint64_t address, unsigned bytes, bool store, uint16_t thread)
{
    if (__builtin_expect(address >> ADDRESS_BITS != 0, 0))
        return;
    struct wire_access *row = row_of(address >> PAGE_SHIFT, store, thread);
    count(row, store, thread, 1);
    if (store && objects_followed())
        objects_store(row->page, address, bytes);
    uint64_t line = address >> LINE_SHIFT;
    const uint64_t lines_in_page = PAGE_BYTES / LINE_BYTES;
    access_cache(row, line % lines_in_page, store);
    uint64_t last = address + bytes - 1;
    if (__builtin_expect(last >> LINE_SHIFT == line, 1))
        return;
    if (last >> PAGE_SHIFT != address >> PAGE_SHIFT) {
        row = row_of(last >> PAGE_SHIFT, store, thread);
        count(row, store, thread, 1);
    }
    access_cache(row, (last >> LINE_SHIFT) % lines_in_page, store);
}

/* Counts a copy by lines, from byte `start` to byte `end` of page `vpn`. Returns the row. */
static struct wire_access *copy_in_page(uint64_t vpn, uint64_t start, uint64_t end, bool store,
                                        uint16_t thread)
{
    struct wire_access *row = row_of(vpn, store, thread);
    uint64_t first = start >> LINE_SHIFT, last = (end - 1) >> LINE_SHIFT;
    count(row, store, thread, (uint32_t)(last - first + 1));
    for (uint64_t line = first; line <= last; line++)
        access_cache(row, line, store);
    return row;
}

void window_copy(uint64_t address, uint64_t bytes, bool store, uint16_t thread)
{
    uint64_t end = address + bytes;
    if (end >> ADDRESS_BITS != 0 || end < address)
        return;
    while (address < end) {
        uint64_t page_end = (address | (PAGE_BYTES - 1)) + 1;
        uint64_t stop = page_end < end ? page_end : end;
        uint64_t base = address & ~(PAGE_BYTES - 1);
        copy_in_page(address >> PAGE_SHIFT, address - base, stop - base, store, thread);
        address = stop;
    }
}

void window_file_copy(uint32_t file, uint64_t offset, uint64_t bytes, bool store, uint16_t thread)
{
    uint64_t end = offset + bytes;
    if (end >> (FILE_VPN_SHIFT + PAGE_SHIFT) != 0)
        return;
    while (offset < end) {
        uint64_t page_end = (offset | (PAGE_BYTES - 1)) + 1;
        uint64_t stop = page_end < end ? page_end : end;
        uint64_t base = offset & ~(PAGE_BYTES - 1);
        uint64_t vpn = FILE_VPN_BASE + ((uint64_t)file << FILE_VPN_SHIFT) + (offset >> PAGE_SHIFT);
        struct wire_access *row = copy_in_page(vpn, offset - base, stop - base, store, thread);
        if (row->supervised != UINT16_MAX)
            row->supervised++;
        offset = stop;
    }
}

static void end_visited(struct page_entry *entry, uint64_t vpn, void *data)
{
    bool only_anonymous = data != NULL;
    if (only_anonymous && (entry->cow || mappings_kind(vpn << PAGE_SHIFT) == MAPPING_FILE_SHARED))
        return;
    end_page(entry);
}

static uint64_t page_above(uint64_t address)
{
    return (address + PAGE_BYTES - 1) >> PAGE_SHIFT;
}

void window_unmap(uint64_t start, uint64_t end)
{
    size_t before = n_unmaps;
    pages_visit(start >> PAGE_SHIFT, page_above(end), end_visited, NULL);
    if (n_unmaps != before)
        forget_lookups();
}

void window_unmap_all(void)
{
    window_unmap(0, UINT64_C(1) << ADDRESS_BITS);
    pages_visit_files(end_visited, NULL);
    forget_lookups();
}

void window_discard(uint64_t start, uint64_t end)
{
    static char only_anonymous;
    size_t before = n_unmaps;
    pages_visit(start >> PAGE_SHIFT, page_above(end), end_visited, &only_anonymous);
    if (n_unmaps != before)
        forget_lookups();
}

static void move_visited(struct page_entry *entry, uint64_t vpn, void *data)
{
    const uint64_t *distance = data;
    *pages_entry(vpn + *distance) = *entry;
    objects_move(entry->id_plus_one - 1, vpn + *distance);
    entry->id_plus_one = 0;
    entry->cow = 0;
}

void window_move(uint64_t from, uint64_t to, uint64_t bytes)
{
    uint64_t distance = (to >> PAGE_SHIFT) - (from >> PAGE_SHIFT); /* modulo 2^64 when negative */
    pages_visit(from >> PAGE_SHIFT, page_above(from + bytes), move_visited, &distance);
    forget_lookups();
}

struct window_counts window_counts(void)
{
    return (struct window_counts){(uint32_t)n_allocations, (uint32_t)n_rows, (uint32_t)n_unmaps};
}

void window_take(struct wire_buffer *buffer)
{
    wire_append(buffer, allocations, n_allocations * sizeof *allocations);
    wire_append(buffer, rows, n_rows * sizeof *rows);
    wire_append(buffer, unmaps, n_unmaps * sizeof *unmaps);
    n_allocations = n_rows = n_unmaps = 0;
    forget_lookups();
}

uint32_t window_pages(void)
{
    return next_page;
}
