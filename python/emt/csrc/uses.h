/* True if a page may be judged idle by a signal that sees writes only: every use of what stands on
 * it writes it.
 *
 * So it is of pages of the allocator's pools on which every block in use is an object of a type
 * whose users take a reference to it (signals/uses.py names them), and none is immortal: since
 * CPython 3.12 the counts of those are never written. Tables of dicts, items of lists, values of
 * instances and buffers stand in such pools too, or in memory of their own; they are read without a
 * write. */
#ifndef TIERWISE_EMT_USES_H
#define TIERWISE_EMT_USES_H

#include "pools.h"
#include "types.h"

/* The last pool that was read: neighbours are asked for one after the other. */
struct uses {
    const struct types *types;
    uintptr_t base; /* 0: none */
    _Alignas(struct pool_header) char copy[POOL_BYTES];
    bool is_pool;
    uint8_t free_blocks[POOL_BYTES / 16]; /* 1: in the list of free blocks */
};

/* `tail` is set where the first bytes are of an object that starts on the page before, whose count
 * is written there. */
bool uses_write(struct uses *uses, uintptr_t page, bool *tail);

#endif
