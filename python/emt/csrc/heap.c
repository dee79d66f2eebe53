#include "heap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define KIND_LARGE 0xfe
#define KIND_FREE 0xff

/* Units that become accessible at once: 4 MiB. Each time is a system call of some microseconds. */
#define COMMIT_UNITS ((uint32_t)(REGION_STEP >> PAGE_SHIFT))
_Static_assert((REGION_STEP >> PAGE_SHIFT) * sizeof(struct unit) % 4096 == 0, "whole pages");
/* A freed run of 64 KiB returns its pages at once; smaller ones together, when they reach 1 MiB: a
 * call takes a microsecond, and each page that comes back a fault. */
#define RETURNED_UNITS 16u
#define DIRTY_UNITS 256u
/* Runs of a list that are examined for one that is long enough. Longer lists are searched in the
 * lists of longer runs. */
#define EXAMINED_RUNS 16
/* Units of pools of small blocks, as in pymalloc, and of those of up to POOLED_MAX bytes, which
 * then have eight blocks. A fine region has a page, and two of the largest blocks. */
#define SMALL_UNITS 4u
#define MEDIUM_UNITS 16u
#define FINE_UNITS 1u
#define FINE_MEDIUM_UNITS 4u
_Static_assert(SMALL_UNITS << PAGE_SHIFT == POOL_BYTES, "pools are read as the interpreter's are");

static unsigned class_of(size_t size)
{
    if (size <= SMALL_MAX) {
        return size > 0 ? (unsigned)((size - 1) >> 4) : 0;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzl(size - 1);
    return SMALL_CLASSES + (shift - 9) * 4 + (unsigned)((size - 1) >> (shift - 2) & 3);
}

static size_t class_bytes(unsigned class)
{
    if (class < SMALL_CLASSES) {
        return (size_t)(class + 1) << 4;
    }
    unsigned shift = 9 + (class - SMALL_CLASSES) / 4, quarter = (class - SMALL_CLASSES) % 4;
    return ((size_t)1 << shift) + ((size_t)(quarter + 1) << (shift - 2));
}

static uint32_t pool_units(const struct region *region, unsigned class)
{
    return class < SMALL_CLASSES ? region->small_units : region->medium_units;
}

static char *address_of(const struct region *region, uint32_t unit)
{
    return (char *)region->base + ((uintptr_t)unit << PAGE_SHIFT);
}

static uint32_t unit_of(const struct region *region, const void *address)
{
    uint32_t unit = (uint32_t)(((uintptr_t)address - region->base) >> PAGE_SHIFT);
    return unit - region->units[unit].back;
}

static uint32_t units_for(size_t size)
{
    return (uint32_t)((size + PAGE_BYTES - 1) >> PAGE_SHIFT);
}

/* Lists of units: pools with free blocks, and free runs. */

static void push(struct region *region, uint32_t *list, uint32_t unit)
{
    region->units[unit].next = *list;
    region->units[unit].prev = NO_UNIT;
    if (*list != NO_UNIT) {
        region->units[*list].prev = unit;
    }
    *list = unit;
}

static void take_out(struct region *region, uint32_t *list, uint32_t unit)
{
    struct unit *at = &region->units[unit];
    if (at->prev == NO_UNIT) {
        *list = at->next;
    } else {
        region->units[at->prev].next = at->next;
    }
    if (at->next != NO_UNIT) {
        region->units[at->next].prev = at->prev;
    }
}

static uint32_t *list_for(struct region *region, uint32_t units)
{
    return &region->runs[31 - __builtin_clz(units)];
}

/* Runs. */

static void mark(struct region *region, uint32_t first, uint32_t units, uint8_t kind)
{
    struct unit *last = &region->units[first + units - 1];
    last->kind = kind;
    last->back = units - 1;
    region->units[first].kind = kind;
    region->units[first].back = 0;
    region->units[first].used = units;
    for (uint32_t n = 1; region->fine && n < units; n++) {
        region->units[first + n].back = n;
    }
}

static void add_free(struct region *region, uint32_t first, uint32_t units, bool pages)
{
    mark(region, first, units, KIND_FREE);
    region->units[first].bump = pages;
    push(region, list_for(region, units), first);
}

static void take_free(struct region *region, uint32_t first)
{
    take_out(region, list_for(region, region->units[first].used), first);
}

static void return_pages(struct region *region)
{
    for (int list = 0; list < RUN_LISTS; list++) {
        for (uint32_t at = region->runs[list]; at != NO_UNIT; at = region->units[at].next) {
            if (region->units[at].bump) {
                madvise(address_of(region, at), (size_t)region->units[at].used << PAGE_SHIFT,
                        MADV_DONTNEED);
                region->units[at].bump = 0;
            }
        }
    }
    region->dirty = 0;
}

static bool commit(struct region *region, uint32_t until)
{
    if (until <= region->committed) {
        return true;
    }
    if (until > region->limit) {
        return false;
    }
    uint32_t from = region->committed;
    uint64_t wanted = ((uint64_t)until + COMMIT_UNITS - 1) / COMMIT_UNITS * COMMIT_UNITS;
    uint32_t to = wanted > region->limit ? region->limit : (uint32_t)wanted;
    /* The table's part is a multiple of a page, because REGION_STEP is one of COMMIT_UNITS. */
    if (mprotect((char *)region->units + from * sizeof(struct unit),
                 (to - from) * sizeof(struct unit), PROT_READ | PROT_WRITE) < 0 ||
        mprotect(address_of(region, from), (size_t)(to - from) << PAGE_SHIFT,
                 PROT_READ | PROT_WRITE) < 0) {
        return false;
    }
    region->committed = to;
    if (region->grows != NULL) {
        region->grows((uintptr_t)address_of(region, to), (size_t)(to - from) << PAGE_SHIFT);
    }
    return true;
}

/* Returns a run, or NO_UNIT; `zero` tells if it was never used. */
static uint32_t take_run(struct region *region, uint32_t units, bool *zero)
{
    *zero = false;
    int first_list = 31 - __builtin_clz(units);
    for (int list = first_list; list < RUN_LISTS; list++) {
        uint32_t at = region->runs[list];
        for (int n = 0; at != NO_UNIT && n < EXAMINED_RUNS; n++, at = region->units[at].next) {
            uint32_t there = region->units[at].used;
            if (there >= units) {
                bool pages = region->units[at].bump;
                take_free(region, at);
                if (there > units) {
                    add_free(region, at + units, there - units, pages);
                }
                region->dirty -= pages && region->dirty >= units ? units : 0;
                return at;
            }
        }
    }
    if (units > region->limit - region->top || !commit(region, region->top + units)) {
        return NO_UNIT;
    }
    *zero = true;
    region->top += units;
    return region->top - units;
}

static void free_run(struct region *region, uint32_t first, uint32_t units)
{
    bool pages = units < RETURNED_UNITS;
    if (pages) {
        region->dirty += units;
    } else {
        madvise(address_of(region, first), (size_t)units << PAGE_SHIFT, MADV_DONTNEED);
    }
    uint32_t after = first + units;
    if (after < region->top && region->units[after].kind == KIND_FREE) {
        pages |= region->units[after].bump;
        units += region->units[after].used;
        take_free(region, after);
    }
    if (first > 0 && region->units[first - 1].kind == KIND_FREE) {
        uint32_t before = first - 1 - region->units[first - 1].back;
        pages |= region->units[before].bump;
        units += region->units[before].used;
        take_free(region, before);
        first = before;
    }
    add_free(region, first, units, pages);
    if (region->dirty > DIRTY_UNITS) {
        return_pages(region);
    }
}

/* Pools. */

static bool full(const struct region *region, const struct unit *pool, unsigned class, size_t bytes)
{
    return pool->free == NULL && pool->bump + bytes > (size_t)pool_units(region, class)
                                                          << PAGE_SHIFT;
}

static uint32_t new_pool(struct bins *bins, unsigned class)
{
    struct region *region = bins->region;
    uint32_t units = pool_units(region, class);
    bool zero;
    uint32_t first = take_run(region, units, &zero);
    if (first == NO_UNIT) {
        return NO_UNIT;
    }
    mark(region, first, units, (uint8_t)class);
    for (uint32_t n = 1; n < units; n++) {
        region->units[first + n].back = n;
    }
    struct unit *pool = &region->units[first];
    pool->free = NULL;
    pool->used = pool->bump = 0;
    pool->owner = bins->owner;
    push(region, &bins->usable[class], first);
    return first;
}

/* Takes a pool that has no free block left from its list; returns its last one. */
static void *__attribute__((noinline)) last_block(struct bins *bins, unsigned class, void *block)
{
    take_out(bins->region, &bins->usable[class], bins->usable[class]);
    return block;
}

static void *pool_malloc(struct bins *bins, unsigned class, size_t bytes);
static void *__attribute__((noinline)) first_block(struct bins *bins, unsigned class, size_t bytes)
{
    return new_pool(bins, class) == NO_UNIT ? NULL : pool_malloc(bins, class, bytes);
}

/* `bytes` are those of the class. What is rare is in functions of its own, so that the rest saves
 * no registers. */
static inline void *pool_malloc(struct bins *bins, unsigned class, size_t bytes)
{
    struct region *region = bins->region;
    uint32_t first = bins->usable[class];
    if (first == NO_UNIT) {
        return first_block(bins, class, bytes);
    }
    struct unit *pool = &region->units[first];
    void *block = pool->free;
    if (block != NULL) {
        memcpy(&pool->free, block, sizeof pool->free);
    } else {
        block = address_of(region, first) + pool->bump;
        pool->bump += (uint32_t)bytes;
    }
    pool->used++;
    region->used += bytes;
    return full(region, pool, class, bytes) ? last_block(bins, class, block) : block;
}

static void pool_free(struct region *region, struct bins *bins, uint32_t first, void *block)
{
    struct unit *pool = &region->units[first];
    unsigned class = pool->kind;
    size_t bytes = class_bytes(class);
    bool was_full = full(region, pool, class, bytes);
    memcpy(block, &pool->free, sizeof pool->free);
    pool->free = block;
    pool->used--;
    region->used -= bytes;
    if (was_full) {
        push(region, &bins->usable[class], first);
    }
    /* The last pool of a class stays, so that one block does not make and end a pool each time. */
    bool only = bins->usable[class] == first && pool->next == NO_UNIT;
    if (pool->used == 0 && !only) {
        take_out(region, &bins->usable[class], first);
        uint32_t units = pool_units(region, class);
        /* Its run may become a part of a longer one, whose first unit is another. */
        pool->kind = KIND_FREE;
        free_run(region, first, units);
    }
}

/* The interface. */

int region_init(struct region *region, uintptr_t base, size_t bytes, bool fine)
{
    *region = (struct region){.base = base,
                              .limit = (uint32_t)(bytes >> PAGE_SHIFT),
                              .small_units = fine ? FINE_UNITS : SMALL_UNITS,
                              .fine = fine,
                              .medium_units = fine ? FINE_MEDIUM_UNITS : MEDIUM_UNITS};
    memset(region->runs, 0xff, sizeof region->runs);
    /* Addresses only: memory is taken by `commit`. */
    void *units = mmap(NULL, region->limit * sizeof *region->units, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (units == MAP_FAILED) {
        return errno;
    }
    region->units = units;
    return 0;
}

void bins_init(struct bins *bins, struct region *region, uint32_t owner)
{
    bins->region = region;
    bins->owner = owner;
    memset(bins->usable, 0xff, sizeof bins->usable);
}

static void *take(struct bins *bins, size_t size, bool *zero)
{
    *zero = false;
    if (size <= POOLED_MAX) {
        unsigned class = class_of(size);
        return pool_malloc(bins, class, class_bytes(class));
    }
    struct region *region = bins->region;
    if (size > (size_t)region->limit << PAGE_SHIFT) {
        return NULL;
    }
    uint32_t units = units_for(size), first = take_run(region, units, zero);
    if (first == NO_UNIT) {
        return NULL;
    }
    mark(region, first, units, KIND_LARGE);
    region->units[first].owner = bins->owner;
    region->used += (size_t)units << PAGE_SHIFT;
    return address_of(region, first);
}

static void *__attribute__((noinline)) take_any(struct bins *bins, size_t size)
{
    bool zero;
    return take(bins, size, &zero);
}

void *bins_malloc(struct bins *bins, size_t size)
{
    /* Nearly all objects: their classes need no more than this. */
    if (size - 1 < SMALL_MAX) {
        return pool_malloc(bins, (unsigned)((size - 1) >> 4), ((size - 1) | 15) + 1);
    }
    return take_any(bins, size);
}

void *bins_calloc(struct bins *bins, size_t bytes)
{
    bool zero;
    void *block = take(bins, bytes, &zero);
    return block == NULL || zero ? block : memset(block, 0, bytes);
}

size_t region_usable(const struct region *region, const void *block)
{
    const struct unit *at = &region->units[unit_of(region, block)];
    return at->kind == KIND_LARGE ? (size_t)at->used << PAGE_SHIFT : class_bytes(at->kind);
}

uint32_t region_owner(const struct region *region, const void *address)
{
    uint32_t unit = (uint32_t)(((uintptr_t)address - region->base) >> PAGE_SHIFT);
    if (unit >= region->top) {
        return NO_UNIT;
    }
    const struct unit *at = &region->units[unit_of(region, address)];
    return at->kind == KIND_FREE ? NO_UNIT : at->owner;
}

void region_used_by(const struct region *region, uint64_t *bytes, size_t owners)
{
    for (uint32_t unit = 0; unit < region->top;) {
        const struct unit *run = &region->units[unit];
        bool pool = run->kind != KIND_LARGE && run->kind != KIND_FREE;
        uint64_t used =
            pool ? run->used * class_bytes(run->kind) : (uint64_t)run->used * PAGE_BYTES;
        if (run->kind != KIND_FREE && run->owner < owners) {
            bytes[run->owner] += used;
        }
        unit += pool ? pool_units(region, run->kind) : run->used;
    }
}

bool region_pool(const struct region *region, uintptr_t address, struct pool_shape *pool)
{
    uint32_t unit = (uint32_t)((address - region->base) >> PAGE_SHIFT);
    if (unit >= region->top || region->fine) {
        return false;
    }
    uint32_t first = unit - region->units[unit].back;
    if (first > unit || unit - first >= SMALL_UNITS) {
        return false;
    }
    struct unit at = region->units[first];
    if (at.kind >= SMALL_CLASSES || at.bump > POOL_BYTES) {
        return false;
    }
    *pool = (struct pool_shape){.base = (uintptr_t)address_of(region, first),
                                .free_block = (uintptr_t)at.free,
                                .used = at.used,
                                .until = at.bump,
                                .block_bytes = (uint32_t)class_bytes(at.kind)};
    return true;
}

void region_free(struct region *region, struct bins *bins, void *block)
{
    uint32_t first = unit_of(region, block);
    struct unit *at = &region->units[first];
    if (at->kind != KIND_LARGE) {
        pool_free(region, bins, first, block);
        return;
    }
    region->used -= (size_t)at->used << PAGE_SHIFT;
    free_run(region, first, at->used);
}

/* Makes a large block longer by the units behind it, if those are free. */
static bool extend(struct region *region, uint32_t first, uint32_t units)
{
    uint32_t there = region->units[first].used, more = units - there, after = first + there;
    if (after == region->top) {
        if (more > region->limit - region->top || !commit(region, region->top + more)) {
            return false;
        }
        region->top += more;
        return true;
    }
    if (region->units[after].kind != KIND_FREE || region->units[after].used < more) {
        return false;
    }
    uint32_t rest = region->units[after].used - more;
    bool pages = region->units[after].bump;
    take_free(region, after);
    region->dirty -= pages && region->dirty >= more ? more : 0;
    if (rest > 0) {
        add_free(region, after + more, rest, pages);
    }
    return true;
}

bool region_resize(struct region *region, void *block, size_t size)
{
    uint32_t first = unit_of(region, block);
    struct unit *at = &region->units[first];
    if (at->kind != KIND_LARGE) {
        size_t bytes = class_bytes(at->kind);
        /* As pymalloc: a block that shrinks by less than a quarter stays. */
        return size <= bytes && (4 * size > 3 * bytes || class_of(size) == at->kind);
    }
    uint32_t units = units_for(size), there = at->used;
    if (size <= POOLED_MAX || size > (size_t)region->limit << PAGE_SHIFT ||
        (units > there && !extend(region, first, units))) {
        return false;
    }
    region->used += ((size_t)units << PAGE_SHIFT) - ((size_t)there << PAGE_SHIFT);
    mark(region, first, units, KIND_LARGE);
    if (units < there) {
        free_run(region, first + units, there - units);
    }
    return true;
}
