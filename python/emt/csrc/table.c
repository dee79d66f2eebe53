#include "table.h"

#include <stdlib.h>
#include <string.h>

int table_init(struct table *table)
{
    memset(table, 0, sizeof *table);
    table->began_ns = monotonic_ns();
    return pthread_mutex_init(&table->lock, NULL);
}

void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        untracked_free(table->chunks[i], sizeof(struct chunk));
    }
    free(table->chunks);
    free(table->held);
    table->held = NULL;
    table->held_count = 0;
    table->chunks = NULL;
    table->count = table->room = table->pages = table->last = 0;
}

/* The first chunk at or after a base. */
static size_t lower_bound(const struct table *table, uintptr_t base)
{
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->chunks[middle]->base < base) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct chunk *insert(struct table *table, size_t at, uintptr_t base)
{
    if (table->count == table->room) {
        size_t room = table->room ? table->room * 2 : 64;
        struct chunk **chunks = realloc(table->chunks, room * sizeof *chunks);
        if (chunks == NULL) {
            return NULL;
        }
        table->chunks = chunks;
        table->room = room;
    }
    struct chunk *chunk = untracked_alloc(sizeof *chunk);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->base = base;
    memmove(&table->chunks[at + 1], &table->chunks[at],
            (table->count - at) * sizeof *table->chunks);
    table->chunks[at] = chunk;
    table->count++;
    return chunk;
}

struct chunk *table_chunk(struct table *table, uintptr_t address, bool make)
{
    uintptr_t base = address & ~(CHUNK_BYTES - 1);
    if (table->last < table->count && table->chunks[table->last]->base == base) {
        return table->chunks[table->last];
    }
    size_t at = lower_bound(table, base);
    table->last = at;
    if (at < table->count && table->chunks[at]->base == base) {
        return table->chunks[at];
    }
    return make ? insert(table, at, base) : NULL;
}

void table_see(struct table *table, struct chunk *chunk, unsigned index, float seen, float k)
{
    if (!(chunk->flags[index] & PAGE_KNOWN)) {
        chunk->flags[index] = PAGE_KNOWN;
        chunk->hotness[index] = 0.0f;
        chunk->cold[index] = chunk->refusals[index] = chunk->rests[index] = 0;
        chunk->tier[index] = TIER_FAST;
        chunk->touched[index] = table_now(table);
        table->pages++;
    }
    if (seen > 0.0f) {
        chunk->touched[index] = table_now(table);
    }
    chunk->flags[index] |= PAGE_SAMPLED;
    chunk->hotness[index] = k * seen + (1.0f - k) * chunk->hotness[index];
}

uint16_t table_now(const struct table *table)
{
    int64_t ticks = (monotonic_ns() - table->began_ns) / TICK_NS;
    return ticks < UINT16_MAX ? (uint16_t)ticks : UINT16_MAX;
}

unsigned table_bucket(float hotness)
{
    unsigned bucket = 0;
    for (float top = 2.0f; bucket < BUCKETS - 1 && hotness >= top; top *= 2.0f) {
        bucket++;
    }
    return bucket;
}

bool table_held(const struct table *table, uint64_t address)
{
    size_t low = 0, high = table->held_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->held[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < table->held_count && table->held[low].start <= address;
}
