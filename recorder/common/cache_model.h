/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set-associative cache with least-recently-used replacement.
 *
 * It reports for each access whether it would have reached memory. The recorder of user programs
 * and plugins that monitor a whole machine use it; the Rust module
 * tierwise-trace/src/cache.rs behaves the same, and a test there compares both on one
 * sequence.
 *
 * A set is an array of tags in order of use, the most recent first. Sixteen 32-bit tags fill
 * exactly one 64-byte line of the host, so a lookup costs at most one host cache miss.
 */
#ifndef TIERWISE_CACHE_MODEL_H
#define TIERWISE_CACHE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct cache_model {
    uint32_t *tags; /* sets * ways; 0 is an empty way, a line's tag is stored plus one */
    uint32_t ways;
    uint32_t set_mask;
    uint32_t set_bits;
};

/* Prepares a cache of size_bytes. Returns NULL, or the error in the geometry: the number of sets
 * must be a power of two, because the low bits of the line number select the set. */
static inline const char *cache_model_init(struct cache_model *cache, uint64_t size_bytes,
                                           uint32_t ways, uint32_t line_bytes)
{
    if (ways == 0 || line_bytes == 0 || size_bytes % ((uint64_t)ways * line_bytes) != 0)
        return "the cache size must be a multiple of ways times line size";
    uint64_t sets = size_bytes / ((uint64_t)ways * line_bytes);
    if (sets == 0 || (sets & (sets - 1)) != 0 || sets > UINT64_C(1) << 31)
        return "size / (ways * line size) must be a power of two";
    cache->ways = ways;
    cache->set_mask = (uint32_t)(sets - 1);
    cache->set_bits = (uint32_t)__builtin_ctzll(sets);
    size_t bytes = (size_t)sets * ways * sizeof *cache->tags;
    /* aligned_alloc requires a multiple of the alignment, which the size of a small cache may not
     * be. */
    bytes = (bytes + 63) & ~(size_t)63;
    cache->tags = aligned_alloc(64, bytes);
    if (!cache->tags)
        return "not enough memory for the cache model";
    memset(cache->tags, 0, bytes);
    return NULL;
}

static inline uint32_t *cache_model_set(const struct cache_model *cache, uint64_t line)
{
    return cache->tags + (size_t)(line & cache->set_mask) * cache->ways;
}

/* Accesses a line (an address divided by the line size). Returns true for a miss. */
static inline bool cache_model_access(struct cache_model *cache, uint64_t line)
{
    uint32_t *set = cache_model_set(cache, line);
    uint32_t tag = (uint32_t)(line >> cache->set_bits) + 1;
    if (set[0] == tag)
        return false;
    uint32_t moved = set[0];
    for (uint32_t way = 1; way < cache->ways; way++) {
        uint32_t next = set[way];
        set[way] = moved;
        if (next == tag) {
            set[0] = tag;
            return false;
        }
        moved = next;
    }
    set[0] = tag;
    return true;
}

#endif
