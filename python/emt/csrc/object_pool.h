/* A pool of CPython's object allocator, as it lies in memory.
 *
 * A pool is 16 KiB of blocks of one size class behind a header of 48 bytes, in CPython 3.10 to 3.14
 * alike (Objects/obmalloc.c, struct pool_header). The functions call no Python. */
#ifndef TIERWISE_EMT_OBJECT_POOL_H
#define TIERWISE_EMT_OBJECT_POOL_H

#include "common.h"
#include "types.h"

#define POOL_BYTES ((uintptr_t)16384)
#define POOL_HEADER_BYTES 48
#define SIZE_CLASSES 32
/* A block without an object. */
#define NO_OBJECT 0xff

struct pool_header {
    uint32_t count; /* blocks in use */
    uint32_t pad;
    uint64_t free_block;
    uint64_t next_pool, previous_pool;
    uint32_t arena;
    uint32_t size_class;
    uint32_t next_offset, most_next_offset;
};

/* The blocks of a pool of POOL_BYTES, of the interpreter or of a heap. */
struct pool_shape {
    uintptr_t base;
    uint64_t free_block;   /* the first of a list by the blocks' first words; 0: none */
    uint32_t used;         /* blocks in use */
    uint32_t first, until; /* offsets: of the first block, and after the last that was ever used */
    uint32_t block_bytes;
};

/* True if a header at an address is that of a pool with objects in it. */
bool pool_plausible(const struct pool_header *header, uintptr_t base);

/* Returns the place of an object of one of the types in a block, or NO_OBJECT; `likely` is the
 * place of the previous object. */
uint8_t find_object(const char *block, uint32_t block_bytes, const struct types *types,
                    uint8_t *likely);

/* Reads this process's memory without crashing. Returns true if all of it could be read. */
bool read_memory(uintptr_t from, void *to, size_t bytes);

#endif
