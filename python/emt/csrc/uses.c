#include "uses.h"

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

static uint32_t block_bytes(const struct pool_header *header)
{
    return (header->size_class + 1) * 16;
}

/* Walks the list of free blocks; false if the program changed it meanwhile, or if there is no such
 * list.
 */
static bool find_free(struct uses *uses, const struct pool_header *header)
{
    uint32_t bytes = block_bytes(header),
             blocks = (header->next_offset - POOL_HEADER_BYTES) / bytes, found = 0;
    memset(uses->free_blocks, 0, sizeof uses->free_blocks);
    for (uint64_t block = header->free_block; block != 0; found++) {
        uint64_t offset = block - uses->base - POOL_HEADER_BYTES;
        if (offset % bytes != 0 || offset / bytes >= blocks || uses->free_blocks[offset / bytes]) {
            return false;
        }
        uses->free_blocks[offset / bytes] = 1;
        block = word_of(uses, (uint32_t)(block - uses->base));
    }
    return found + header->count == blocks;
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
    return pool_plausible(&header, base) && find_free(uses, &header);
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
    uintptr_t base = page & ~(POOL_BYTES - 1);
    *tail = false;
    if (base != uses->base) {
        uses->base = base;
        uses->is_pool = read_pool(uses, base);
    }
    if (!uses->is_pool) {
        return false;
    }
    const struct pool_header *header = (const struct pool_header *)(const void *)uses->copy;
    uint32_t bytes = block_bytes(header), from = (uint32_t)(page - base),
             until = from + (uint32_t)PAGE_BYTES;
    uint32_t first = from > POOL_HEADER_BYTES ? (from - POOL_HEADER_BYTES) / bytes : 0;
    uint8_t likely = 0;
    for (uint32_t n = first, at;
         (at = POOL_HEADER_BYTES + n * bytes) < until && at < header->next_offset; n++) {
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
