#include "object_pool.h"

#include <sys/uio.h>
#include <unistd.h>

/* Bytes before an object in its block: none; the collector's two words; those and the two words of
 * a managed dict. In a debugging allocator's block each is 16 more. */
static const uint8_t offsets[] = {0, 16, 32, 48};

bool pool_plausible(const struct pool_header *header, uintptr_t base)
{
    if (header->size_class >= SIZE_CLASSES) {
        return false;
    }
    uint32_t bytes = (header->size_class + 1) * 16;
    uint32_t blocks = (uint32_t)(POOL_BYTES - POOL_HEADER_BYTES) / bytes;
    return header->count >= 1 && header->count <= blocks &&
           header->most_next_offset == POOL_BYTES - bytes &&
           header->next_offset >= POOL_HEADER_BYTES && header->next_offset <= POOL_BYTES &&
           (header->next_offset - POOL_HEADER_BYTES) % bytes == 0 &&
           (header->free_block == 0 ||
            (header->free_block > base && header->free_block < base + POOL_BYTES));
}

/* Other threads change this memory during the read, one word at a time. */
static uint64_t word_at(const char *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
}

uint8_t find_object(const char *block, uint32_t block_bytes, const struct types *types,
                    uint8_t *likely)
{
    if (*likely + 16u <= block_bytes && types_have(types, word_at(block + *likely + 8))) {
        return *likely;
    }
    for (size_t n = 0; n < sizeof offsets; n++) {
        if (offsets[n] + 16u <= block_bytes && types_have(types, word_at(block + offsets[n] + 8))) {
            return *likely = offsets[n];
        }
    }
    return NO_OBJECT;
}

bool read_memory(uintptr_t from, void *to, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}
