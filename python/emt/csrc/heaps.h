/* The program's two heaps, a cold and a hot one: their addresses, their nodes, and which of them
 * has a block.
 *
 * The caller holds the interpreter's lock, except where a comment says otherwise. */
#ifndef TIERWISE_EMT_HEAPS_H
#define TIERWISE_EMT_HEAPS_H

#include "heap.h"

/* What a thread may ask for: none, as ever, or a heap. */
enum { DEFAULT, COLD, HOT, HEAP_TIERS };
#define HEAPS (HEAP_TIERS - COLD)
_Static_assert(HEAPS == 2, "heaps_region tells two apart");

/* One compare tells if a heap has a block, and a second one which: the regions are neighbours. */
struct heaps {
    uintptr_t start;
    size_t bytes; /* of both heaps; 0: there are none */
    size_t each_bytes;
    PyInterpreterState *interpreter; /* the main one, whose objects they have */
    struct region regions[HEAPS];
    struct bins bins[HEAPS];
};
extern struct heaps heaps;

/* True if a heap has the block. Any thread may ask. */
static inline bool heaps_have(const void *block)
{
    return (uintptr_t)block - heaps.start < heaps.bytes;
}

/* The region of a block that a heap has. */
static inline struct region *heaps_region(const void *block)
{
    return &heaps.regions[(uintptr_t)block - heaps.start >= heaps.each_bytes];
}

/* Reserves the heaps' addresses, `bytes` for each or fewer. They have no blocks before
 * `heaps_open`. Returns 0, or an error number. */
int heaps_reserve(size_t bytes, bool fine);

/* From now on blocks may be theirs. */
void heaps_open(void);

/* Binds the heaps to the nodes of the masks; the cold one borrows fast memory beyond `kept` free
 * bytes. Returns 0, or an error number. */
int heaps_bind(uint64_t cold_nodes, uint64_t hot_nodes, uint64_t kept);

/* Exchanges the heaps' nodes, with their pages. Needs no lock of the interpreter's. Returns 0, or
 * an error number. */
int heaps_exchange(void);

/* The end of a heap's addresses that prefer the fast nodes: its start, without nodes. */
uintptr_t heaps_fast_end(int heap);

/* `region_pool` of the heaps. */
bool heaps_pool(uintptr_t address, struct pool_shape *pool);

#endif
