/* Checks that a signal that reports only writes may judge a page idle: every use of the page's
 * contents writes the page.
 *
 * This holds for pages of pools, of the interpreter's allocator or of the heaps, on which every
 * block in use is an object of a type whose users take a reference to it (signals/uses.py names
 * them), and none is immortal: since CPython 3.12 the counts of immortal objects are never written.
 * Tables of dicts, items of lists, values of instances and buffers are in such pools too, or in
 * memory of their own; they are read without a write. */
#ifndef TIERWISE_EMT_USES_H
#define TIERWISE_EMT_USES_H

#include "object_pool.h"

/* The last pool that was read: callers check neighbours in succession. */
struct uses {
    const struct types *types;
    uintptr_t base; /* 0: none */
    struct pool_shape pool;
    _Alignas(struct pool_header) char copy[POOL_BYTES];
    bool is_pool;
    uint8_t free_blocks[POOL_BYTES / 16]; /* 1: in the list of free blocks */
};

/* Returns true if every use of the page writes it. `tail` is set if the first bytes belong to an
 * object that starts on the page before, on which its count is written. */
bool uses_write(struct uses *uses, uintptr_t page, bool *tail);

#endif
