/* The pools of CPython's object allocator, found and read without the interpreter's lock.
 *
 * The program can free memory at any time, so it is read in one of two ways:
 * - through process_vm_readv, which fails where a direct read would crash;
 * - directly, under `pools_lock`, if the pool is proven. Arenas are freed through the arena
 *   allocator. A wrapper of it takes the lock and marks their pools as freed. A pool is proven if
 *   its list of free blocks points into itself, or if an object in it is linked in the collector's
 *   lists: neither holds for a copy of a pool. It is also proven if an adjacent pool of the same
 *   arena is.
 */
#ifndef EMT_REPRODUCTION_POOLS_H
#define EMT_REPRODUCTION_POOLS_H

#include "object_pool.h"
#include "ranges.h"

#include <pthread.h>

#define ARENA_BYTES ((uintptr_t)1 << 20)

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

#endif
