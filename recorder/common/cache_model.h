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
 *
 * 64 successive lines, a page of 4 KiB, are in successive sets. The colour of a page, its place
 * among the sets, is hashed by the address above, as server CPUs hash it (Maurice et al., "Reverse
 * Engineering Intel Last-Level Cache Complex Addressing Using Performance Counters", RAID 2015).
 * With the plain address instead, arrays whose sizes are powers of two collide, and the misses of
 * a graph program depend on which page frames it has: bc missed 91 million times in successive
 * frames, and 73 million times in random ones.
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
    uint32_t colour_bits; /* of a set's number, beside the place of a line in its page */
};

/* Lines of a page: 2^6. */
#define CACHE_MODEL_PAGE_BITS 6

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
    cache->colour_bits =
        cache->set_bits > CACHE_MODEL_PAGE_BITS ? cache->set_bits - CACHE_MODEL_PAGE_BITS : 0;
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

/* The bits of a line's number above those of its set, by the golden ratio (Knuth, The Art of
 * Computer Programming, volume 3, 6.4), as a colour at its place in the set's number. */
static inline uint64_t cache_model_colour(const struct cache_model *cache, uint64_t line)
{
    if (cache->colour_bits == 0)
        return 0;
    uint64_t hash = (line >> cache->set_bits) * UINT64_C(0x9E3779B97F4A7C15);
    return hash >> (64 - cache->colour_bits) << CACHE_MODEL_PAGE_BITS;
}

static inline uint32_t *cache_model_set(const struct cache_model *cache, uint64_t line)
{
    uint64_t set = (line ^ cache_model_colour(cache, line)) & cache->set_mask;
    return cache->tags + (size_t)set * cache->ways;
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
