#include "uses.h"

#include "heaps.h"

#include <string.h>

#ifdef Py_GIL_DISABLED
/* These objects are in another allocator's heaps, and their owners count references differently. */
bool uses_write(struct uses *uses, uintptr_t page, bool *tail)
{
    (void)uses;
    (void)page;
    *tail = false;
    return false;
}
#else

static uint64_t word_of(const struct uses *uses, uint32_t offset)
{
    uint64_t word;
    memcpy(&word, uses->copy + offset, sizeof word);
    return word;
}

/* Walks the list of free blocks; false if the program changed it meanwhile, or if there is no such
 * list.
 */
static bool find_free(struct uses *uses, const struct pool_shape *pool)
{
    uint32_t blocks = (pool->until - pool->first) / pool->block_bytes, found = 0;
    memset(uses->free_blocks, 0, sizeof uses->free_blocks);
    for (uint64_t block = pool->free_block; block != 0; found++) {
        uint64_t offset = block - pool->base - pool->first;
        if (offset % pool->block_bytes != 0 || offset / pool->block_bytes >= blocks ||
            uses->free_blocks[offset / pool->block_bytes]) {
            return false;
        }
        uses->free_blocks[offset / pool->block_bytes] = 1;
        block = word_of(uses, (uint32_t)(block - pool->base));
    }
    return found + pool->used == blocks;
}

static struct pool_shape shape_of(const struct pool_header *header, uintptr_t base)
{
    return (struct pool_shape){.base = base,
                               .free_block = header->free_block,
                               .used = header->count,
                               .first = POOL_HEADER_BYTES,
                               .until = header->next_offset,
                               .block_bytes = (header->size_class + 1) * 16};
}

static bool read_pool(struct uses *uses, uintptr_t base)
{
    struct pool_header header;
    /* Most memory is not in a pool, which its first bytes show. */
    if (!read_memory(base, &header, sizeof header) || !pool_plausible(&header, base) ||
        !read_memory(base, uses->copy, POOL_BYTES)) {
        return false;
    }
    memcpy(&header, uses->copy, sizeof header);
    uses->pool = shape_of(&header, base);
    return pool_plausible(&header, base) && find_free(uses, &uses->pool);
}

/* Finds the pool of a page: one of the heaps (heap.h), or one of the interpreter's. */
static bool find_pool(struct uses *uses, uintptr_t page)
{
    uintptr_t base = page & ~(POOL_BYTES - 1);
    if (heaps_pool(page, &uses->pool)) {
        /* Its size class and its blocks in use may change meanwhile; then its free blocks are not
         * as many as it says. */
        uses->base = uses->pool.base;
        return read_memory(uses->base, uses->copy, POOL_BYTES) && find_free(uses, &uses->pool);
    }
    uses->base = base;
    return read_pool(uses, base);
}

/* True if a word is a reference count that uses write. In other memory the word before a pointer to
 * a type is mostly a pointer too, whose upper half no count has. */
static bool mortal(uint64_t word)
{
#if PY_VERSION_HEX >= 0x030c0000
    if (word & 0x80000000) {
        return false;
    }
#endif
#ifdef PY_GROWTH_BUILD_ID
    return true; /* the upper half is the counter of changes */
#elif PY_VERSION_HEX >= 0x030e0000
    return (word >> 32 & 0xffff) == 0; /* beside flags there is the count's overflow */
#else
    return word >> 32 == 0;
#endif
}

bool uses_write(struct uses *uses, uintptr_t page, bool *tail)
{
    *tail = false;
    if (uses->base == 0 || page - uses->base >= POOL_BYTES) {
        uses->is_pool = find_pool(uses, page);
    }
    if (!uses->is_pool) {
        return false;
    }
    const struct pool_shape *pool = &uses->pool;
    uint32_t bytes = pool->block_bytes, from = (uint32_t)(page - pool->base),
             until = from + (uint32_t)PAGE_BYTES;
    uint32_t first = from > pool->first ? (from - pool->first) / bytes : 0;
    uint8_t likely = 0;
    for (uint32_t n = first, at; (at = pool->first + n * bytes) < until && at < pool->until; n++) {
        if (uses->free_blocks[n]) {
            continue;
        }
        uint8_t offset = find_object(uses->copy + at, bytes, uses->types, &likely);
        if (offset == NO_OBJECT || !mortal(word_of(uses, at + offset))) {
            return false;
        }
        *tail |= at + offset < from;
    }
    return true;
}
#endif
