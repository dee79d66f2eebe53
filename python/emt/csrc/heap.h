/* Heaps of small blocks in memory of their own, so that each can be bound to a tier.
 *
 * A region is a reserved range of addresses in units of a page. A run is a number of units in a
 * row: a pool, which has blocks of one size class, or one large block. What is known of a unit is
 * in a table beside the region, so that cold pages are not touched by their allocator. Bins are
 * the pools of one heap; several can share a region.
 *
 * Nothing here calls Python. The caller holds the interpreter's lock. */
#ifndef TIERWISE_EMT_HEAP_H
#define TIERWISE_EMT_HEAP_H

#include "object_pool.h"

/* Classes of 16 bytes up to 512, as in pymalloc, then four classes per doubling up to 8 KiB: at
 * most a fifth of a block is unused. */
#define SMALL_MAX ((size_t)512)
#define SMALL_CLASSES 32
#define POOLED_MAX ((size_t)8192)
#define CLASSES (SMALL_CLASSES + 16)
#define NO_UNIT UINT32_MAX

struct bins {
    struct region *region;
    uint32_t owner;           /* what its units are noted as */
    uint32_t usable[CLASSES]; /* a pool with a free block, first of a list */
};

struct unit {
    void *free;          /* of a pool: freed blocks, linked by their first word */
    uint32_t next, prev; /* pools with free blocks of a class, or free runs of a size */
    uint32_t used;       /* of a pool: its blocks in use; else the units of the run */
    uint32_t bump;  /* of a pool: bytes that were in use once; of a free run: 1 if it has pages */
    uint32_t back;  /* units since the first of its run */
    uint32_t owner; /* the bins' */
    uint8_t kind;   /* a size class, or KIND_LARGE or KIND_FREE; of first and last units */
};

/* Free runs by the binary logarithm of their number of units. */
#define RUN_LISTS 32

struct region {
    uintptr_t base;
    struct unit *units;
    uint32_t limit, committed, top;     /* units reserved, accessible, and ever in use */
    uint32_t small_units, medium_units; /* of a pool */
    bool fine;
    uint32_t runs[RUN_LISTS];
    uint32_t dirty; /* units of free runs that may have pages, about */
    size_t used;    /* bytes of blocks in use, as their classes have them */
    /* Called before addresses up to `end` are used for the first time; NULL: not called. */
    void (*grows)(uintptr_t end, size_t bytes);
};

/* Addresses of a region are a multiple of this. */
#define REGION_STEP ((size_t)4 << 20)

/* Makes a region of reserved addresses; 0, or an error number. A fine region has pools of a page,
 * and the owner of any address can be asked for. */
int region_init(struct region *region, uintptr_t base, size_t bytes, bool fine);
void bins_init(struct bins *bins, struct region *region, uint32_t owner);

/* The owner of the block or pool at an address; NO_UNIT if it is free. For a block any region knows
 * it, for other addresses only a fine one. */
uint32_t region_owner(const struct region *region, const void *address);

/* Adds the bytes of blocks in use to the sums of their owners, of which there are `owners`. */
void region_used_by(const struct region *region, uint64_t *bytes, size_t owners);

/* NULL: the region is full, or the kernel gives no memory. */
void *bins_malloc(struct bins *bins, size_t size);
void *bins_calloc(struct bins *bins, size_t bytes);

/* Of a block of the region; `bins` are those of its owner. */
size_t region_usable(const struct region *region, const void *block);
void region_free(struct region *region, struct bins *bins, void *block);
/* The pool of small blocks that has an address, as it is now; false: none. Other threads may change
 * it meanwhile: the caller checks what it reads. */
bool region_pool(const struct region *region, uintptr_t address, struct pool_shape *pool);
/* True if the block has this size now, at its place. */
bool region_resize(struct region *region, void *block, size_t size);

#endif
