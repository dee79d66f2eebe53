/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kvload's figures: requests, errors, and a histogram of latencies. */
#ifndef TIERWISE_LAB_KVTALLY_H
#define TIERWISE_LAB_KVTALLY_H

#include "common.h"

/* Parts of each power of two: a percentile is at most 3 % too high. */
#define PARTS 32
#define BUCKETS (64 * PARTS)

struct tally {
    long requests, reads, wrong, missing;
    double seconds;
    uint64_t buckets[BUCKETS];
};

static inline void count_latency(struct tally *tally, double seconds)
{
    uint64_t ns = (uint64_t)(seconds * 1e9);
    unsigned power = ns < PARTS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 4;
    tally->buckets[power * PARTS / 2 + (ns >> power)]++;
}

/* Returns the upper end of a bucket in microseconds. */
static inline double bucket_us(size_t bucket)
{
    size_t power = bucket < PARTS ? 0 : bucket / (PARTS / 2) - 1;
    return (double)((bucket - power * PARTS / 2 + 1) << power) / 1e3;
}

/* Returns a percentile in microseconds: the upper end of its part. */
static inline double percentile(const struct tally *tally, double share)
{
    double wanted = share * (double)tally->requests, seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += (double)tally->buckets[i];
        if (tally->buckets[i] && seen >= wanted)
            return bucket_us(i);
    }
    return 0;
}

static inline void report(const char *phase, const struct tally *tally)
{
    printf(
        "{\"phase\": \"%s\", \"requests\": %ld, \"reads\": %ld, \"wrong\": %ld, \"missing\": %ld, "
        "\"seconds\": %.6f, \"p50_us\": %.2f, \"p95_us\": %.2f, \"p99_us\": %.2f}\n",
        phase, tally->requests, tally->reads, tally->wrong, tally->missing, tally->seconds,
        percentile(tally, 0.50), percentile(tally, 0.95), percentile(tally, 0.99));
    fflush(stdout);
}

#endif
