#include "objects.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Features (the reasons are in policy/features.py). */
#define SMALL_CHANGE 2
#define MAX_CHANGE 255

/* Returns the memory of a pool if reading it is safe, else a copy; NULL if it was freed. The pool
 * is not freed before leave_pool. */
static const char *enter_pool(const struct pool *pool, char *copy)
{
    pthread_mutex_lock(&pools_lock);
    if (!pool->gone && pool->proven) {
        return (const char *)pool->base;
    }
    bool gone = pool->gone;
    pthread_mutex_unlock(&pools_lock);
    return !gone && read_memory(pool->base, copy, POOL_BYTES) ? copy : NULL;
}

static void leave_pool(const char *memory, const char *copy)
{
    if (memory != NULL && memory != copy) {
        pthread_mutex_unlock(&pools_lock);
    }
}

/* Other threads change this memory during the read, one word at a time. */
static uint64_t word_at(const char *at)
{
    return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
}

static uint32_t counter_at(const char *object, bool growth)
{
    uint64_t word = word_at(object);
    return growth ? (uint32_t)(word >> 32) : (uint32_t)word;
}

static void find_in_pool(struct objects *objects, const struct pool *pool,
                         const struct types *types)
{
    _Alignas(struct pool_header) char copy[POOL_BYTES];
    const char *memory = enter_pool(pool, copy);
    /* The pool may have been emptied since it was found, and reused for another size of objects. */
    if (memory != NULL &&
        ((const struct pool_header *)(const void *)memory)->size_class != pool->size_class) {
        leave_pool(memory, copy);
        memory = NULL;
    }
    struct object *object = &objects->all[pool->first];
    uint32_t bytes = pool_block_bytes(pool), blocks = pool_blocks(pool);
    uint8_t likely = 0;
    for (uint32_t n = 0; n < blocks; n++, object++) {
        *object = (struct object){.offset = NO_OBJECT};
        if (memory == NULL) {
            continue;
        }
        const char *block = memory + POOL_HEADER_BYTES + n * bytes;
        object->offset = find_object(block, bytes, types, &likely);
        if (object->offset != NO_OBJECT) {
            object->previous = counter_at(block + object->offset, objects->growth);
            objects->known++;
        }
    }
    leave_pool(memory, copy);
}

/* Chooses the pools to sample. If all are sampled in every round, their samples continue from round
 * to round. */
static void choose_pools(struct objects *objects, size_t most)
{
    objects->first = objects->next < objects->pools.count ? objects->next : 0;
    objects->last = objects->first;
    objects->count = 0;
    while (objects->last < objects->pools.count) {
        struct pool *pool = &objects->pools.all[objects->last];
        if (objects->count + pool_blocks(pool) > most) {
            break;
        }
        pool->first = (uint32_t)objects->count;
        objects->count += pool_blocks(pool);
        objects->last++;
    }
    objects->next = objects->last == objects->pools.count ? 0 : objects->last;
}

int objects_collect(struct objects *objects, const struct types *types, size_t most)
{
    /* Once per rotation: walking the address space costs as much as sampling a million objects. A
     * new pool is sampled from the next rotation on. */
    int error = objects->next == 0 ? pools_find(&objects->pools) : 0;
    if (error != 0) {
        return error;
    }
    /* A pool's first block is counted in 32 bits. */
    choose_pools(objects, most < UINT32_MAX ? most : UINT32_MAX);
    free(objects->all);
    objects->all = malloc((objects->count + 1) * sizeof *objects->all);
    objects->known = 0;
    objects->phase = 0;
    if (objects->all == NULL) {
        objects->first = objects->last = objects->count = 0;
        return ENOMEM;
    }
    for (size_t n = objects->first; n < objects->last; n++) {
        find_in_pool(objects, &objects->pools.all[n], types);
    }
    return 0;
}

static uint8_t change(uint32_t before, uint32_t now, bool growth)
{
    uint32_t difference = growth ? now - before : (now > before ? now - before : before - now);
    return difference < MAX_CHANGE ? (uint8_t)difference : MAX_CHANGE;
}

static bool all_zero(const struct object *object)
{
    uint64_t changes;
    memcpy(&changes, object->changes, sizeof changes);
    return changes == 0;
}

static size_t sample_pool(struct objects *objects, const struct pool *pool, unsigned at, bool full)
{
    char copy[POOL_BYTES];
    const char *memory = enter_pool(pool, copy);
    if (memory == NULL) {
        return 0;
    }
    struct object *object = &objects->all[pool->first];
    uint32_t bytes = pool_block_bytes(pool), blocks = pool_blocks(pool);
    size_t sampled = 0;
    const char *block = memory + POOL_HEADER_BYTES;
    for (uint32_t n = 0; n < blocks; n++, object++, block += bytes) {
        if (object->offset == NO_OBJECT) {
            continue;
        }
        if (object->skipped > 0) {
            object->skipped--;
            continue;
        }
        uint32_t now = counter_at(block + object->offset, objects->growth);
        object->changes[at] = change(object->previous, now, objects->growth);
        object->previous = now;
        object->skipped = full && all_zero(object) ? SKIPPED_PHASES : 0;
        sampled++;
    }
    leave_pool(memory, copy);
    return sampled;
}

size_t objects_sample(struct objects *objects)
{
    size_t sampled = 0;
    unsigned at = objects->phase % SAMPLES;
    objects->phase++;
    for (size_t n = objects->first; n < objects->last; n++) {
        sampled += sample_pool(objects, &objects->pools.all[n], at, objects->phase >= SAMPLES);
    }
    return sampled;
}

static float predict(const struct object *object, unsigned samples, const float weights[6])
{
    uint8_t sorted[SAMPLES];
    float sum = 0, squares = 0;
    int nonzero = 0, small = 0;
    memcpy(sorted, object->changes, samples);
    for (unsigned n = 0; n < samples; n++) {
        uint8_t value = sorted[n];
        unsigned at = n;
        for (; at > 0 && sorted[at - 1] > value; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = value;
        sum += value;
        squares += (float)value * (float)value;
        nonzero += value != 0;
        small += value != 0 && value <= SMALL_CHANGE;
    }
    float mean = sum / (float)samples, variance = squares / (float)samples - mean * mean;
    float median = ((float)sorted[(samples - 1) / 2] + (float)sorted[samples / 2]) / 2;
    float predicted = weights[0] * median + weights[1] * sqrtf(variance > 0 ? variance : 0) +
                      weights[2] * (float)nonzero + weights[3] * (float)small +
                      weights[4] * (float)(sorted[samples - 1] - sorted[0]) + weights[5];
    return predicted > 0 ? predicted : 0;
}

size_t objects_pages(const struct objects *objects)
{
    return (objects->last - objects->first) * (POOL_BYTES / PAGE_BYTES);
}

size_t objects_report(const struct objects *objects, const float weights[6], uint64_t *addresses,
                      float *hotness)
{
    unsigned samples = objects->phase < SAMPLES ? objects->phase : SAMPLES;
    size_t pages = 0;
    for (size_t n = objects->first; samples > 0 && n < objects->last; n++) {
        const struct pool *pool = &objects->pools.all[n];
        float sums[POOL_BYTES / PAGE_BYTES] = {0};
        uint32_t blocks = pool_blocks(pool);
        for (uint32_t block = 0; block < blocks; block++) {
            const struct object *object = &objects->all[pool->first + block];
            if (object->offset != NO_OBJECT && !all_zero(object)) {
                uintptr_t at = POOL_HEADER_BYTES + block * pool_block_bytes(pool) + object->offset;
                sums[at >> PAGE_SHIFT] += predict(object, samples, weights);
            }
        }
        for (unsigned page = 0; !pool->gone && page < POOL_BYTES / PAGE_BYTES; page++) {
            addresses[pages] = pool->base + page * PAGE_BYTES;
            hotness[pages++] = sums[page];
        }
    }
    return pages;
}

void objects_clear(struct objects *objects)
{
    pools_clear(&objects->pools);
    free(objects->all);
    objects->all = NULL;
    objects->count = objects->known = objects->first = objects->last = 0;
}
