/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The keys that kvload requests: YCSB's zipfian, scattered over all keys, or a hot part of them. */
#ifndef TIERWISE_LAB_KVDRAW_H
#define TIERWISE_LAB_KVDRAW_H

#include "common.h"

struct draw {
    uint64_t keys, hot_keys, hot_requests; /* the latter two of 100; for a hot part */
    double *up_to; /* for zipfian: of every rank, the weight of it and those before; else NULL */
    uint64_t seed;
};

/* Returns the hundredth root of a number of at least 1, by Newton's method from above, which cannot
 * overshoot. */
static inline double hundredth_root(double number)
{
    double root = 2, before;
    do {
        before = root;
        double power = 1; /* root to the 99th */
        for (int i = 0; i < 99; i++)
            power *= root;
        root -= (root * power - number) / (100 * power);
    } while (root < before);
    return root;
}

/* Returns the cumulative weights of all ranks; a rank's weight is 1 / rank^theta. A draw is then a
 * binary search. */
static inline double *zipfian_weights(long keys, long hundredths)
{
    double *up_to = malloc((size_t)keys * sizeof *up_to), sum = 0;
    if (!up_to)
        fail("out of memory for %ld keys", keys);
    for (long key = 0; key < keys; key++) {
        double root = hundredth_root((double)key + 1), weight = 1;
        for (long i = 0; i < hundredths; i++)
            weight /= root;
        up_to[key] = sum += weight;
    }
    return up_to;
}

/* YCSB's hash of a rank (64-bit FNV-1a), which scatters the most requested keys over all keys. */
static inline uint64_t scattered(uint64_t rank)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (int i = 0; i < 8; i++, rank >>= 8)
        hash = (hash ^ (rank & 0xff)) * UINT64_C(1099511628211);
    return hash;
}

/* Returns a key among the last loaded ones, or among the others. */
static inline uint32_t hotspot_key(const struct draw *draw, uint64_t drawn)
{
    uint64_t hot = draw->keys * draw->hot_keys / 100;
    hot = hot ? hot : 1;
    if (hot == draw->keys || drawn % 100 < draw->hot_requests)
        return (uint32_t)(draw->keys - hot + (drawn / 100) % hot);
    return (uint32_t)((drawn / 100) % (draw->keys - hot));
}

static inline uint32_t draw_key(struct draw *draw)
{
    /* The upper bits, because xorshift's lowest bits are the least random. */
    uint64_t drawn = random_next(&draw->seed) >> 11;
    if (!draw->up_to)
        return hotspot_key(draw, drawn);
    /* 53 bits fill the fraction of a double. */
    double wanted = (double)drawn * 0x1p-53 * draw->up_to[draw->keys - 1];
    uint64_t low = 0, high = draw->keys - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (draw->up_to[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)(scattered(low) % draw->keys);
}

#endif
