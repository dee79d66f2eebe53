/* The pools of CPython's object allocator, found and read without the interpreter's lock.
 *
 * A pool is 16 KiB of blocks of one size class behind a header of 48 bytes, in CPython 3.10 to 3.14
 * alike (Objects/obmalloc.c, struct pool_header). The program can free memory at any time, so it is
 * read in one of two ways:
 * - through process_vm_readv, which fails where a direct read would crash;
 * - directly, under `pools_lock`, if the pool is proven. Arenas are freed through the arena
 *   allocator. A wrapper of it takes the lock and marks their pools as freed. A pool is proven if
 *   its list of free blocks points into itself, or if an object in it is linked in the collector's
 *   lists: neither holds for a copy of a pool. It is also proven if an adjacent pool of the same
 *   arena is.
 */
#ifndef TIERWISE_EMT_POOLS_H
#define TIERWISE_EMT_POOLS_H

#include "ranges.h"

#include <pthread.h>

#define POOL_BYTES ((uintptr_t)16384)
#define POOL_HEADER_BYTES 48
#define ARENA_BYTES ((uintptr_t)1 << 20)
#define SIZE_CLASSES 32

struct pool_header {
    uint32_t count; /* blocks in use */
    uint32_t pad;
    uint64_t free_block;
    uint64_t next_pool, previous_pool;
    uint32_t arena;
    uint32_t size_class;
    uint32_t next_offset, most_next_offset;
};

struct pool {
    uintptr_t base;
    uint32_t arena;
    uint8_t size_class;
    bool proven;
    bool gone;      /* written by the thread that frees the arena, under the lock */
    uint32_t first; /* of its blocks among the sampler's objects */
};

struct pools {
    struct pool *all; /* by address */
    size_t count, room;
};

static inline uint32_t pool_block_bytes(const struct pool *pool)
{
    return (uint32_t)(pool->size_class + 1) * 16;
}

static inline uint32_t pool_blocks(const struct pool *pool)
{
    return (uint32_t)(POOL_BYTES - POOL_HEADER_BYTES) / pool_block_bytes(pool);
}

extern pthread_mutex_t pools_lock;

/* Wraps the arena allocator, so that freed arenas of `watched` are marked. The caller holds the
 * interpreter's lock. Only one can be watched: returns false if another is. A fork takes
 * `pools_lock` too, so that a child never inherits it locked. */
bool pools_watch(struct pools *watched);
void pools_unwatch(struct pools *watched);

/* Finds all pools, without the interpreter's lock. Returns 0, or an error number. */
int pools_find(struct pools *pools);
void pools_clear(struct pools *pools);

/* True if a header at an address is that of a pool with objects in it. */
bool pool_plausible(const struct pool_header *header, uintptr_t base);

/* Reads this process's memory without crashing. Returns true if all of it could be read. */
bool read_memory(uintptr_t from, void *to, size_t bytes);

#endif
