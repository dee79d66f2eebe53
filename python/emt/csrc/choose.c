#include "choose.h"

#include "uffd.h"

#include <stdlib.h>

static bool wished(const struct wish *wish, const struct chunk *chunk, unsigned i)
{
    long bucket = (long)table_bucket(chunk->hotness[i]);
    if (chunk->tier[i] != wish->tier || chunk->rests[i] > 0) {
        return false;
    }
    if (wish->tier == TIER_SLOW) {
        return bucket >= wish->h;
    }
    return bucket < wish->h && chunk->cold[i] >= wish->patience &&
           !(chunk->flags[i] & PAGE_UNJUDGED);
}

static int in_order(const void *one, const void *other)
{
    const struct candidate *a = one, *b = other;
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->lot != b->lot ? (a->lot < b->lot ? -1 : 1)
                            : (a->address > b->address) - (a->address < b->address);
}

/* The multiplier of Fibonacci hashing; the plain table of reproduction/ computes the same lots. */
static uint32_t lot_of(uint64_t address)
{
    return (uint32_t)((address >> PAGE_SHIFT) * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

/* Moves a candidate to its place below `at` in a heap whose first entry is the last in order. */
static void sink(struct candidate *heap, size_t count, size_t at, struct candidate candidate)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && in_order(&heap[child + 1], &heap[child]) > 0;
        if (in_order(&heap[child], &candidate) <= 0) {
            break;
        }
        heap[at] = heap[child];
    }
    heap[at] = candidate;
}

/* Keeps the first `most` of the candidates, in order. */
static void offer(struct candidate *heap, size_t *count, size_t most, struct candidate candidate)
{
    if (*count < most) {
        heap[(*count)++] = candidate;
        for (size_t at = *count / 2; *count == most && at-- > 0;) {
            sink(heap, most, at, heap[at]);
        }
    } else if (most > 0 && in_order(&candidate, &heap[0]) < 0) {
        sink(heap, most, 0, candidate);
    }
}

/* Lists the pages that match the wish, the best first. */
static size_t list(struct table *table, const struct wish *wish, size_t most, struct candidate *out)
{
    size_t found = 0;
    EACH_PAGE(table, {
        uint64_t address = chunk->base + i * PAGE_BYTES;
        if (wished(wish, chunk, i) && !table_held(table, address)) {
            float rank = wish->tier == TIER_FAST ? chunk->hotness[i] : -chunk->hotness[i];
            offer(out, &found, most, (struct candidate){rank, lot_of(address), address});
        }
    })
    qsort(out, found, sizeof *out, in_order);
    return found;
}

/* True if an object's tail may be demoted: the page before, on which its count is written, is as
 * cold.
 */
static bool cold_before(struct table *table, const struct wish *wish, uintptr_t page)
{
    const struct chunk *chunk = table_chunk(table, page - PAGE_BYTES, false);
    unsigned i = chunk == NULL ? 0 : (unsigned)((page - PAGE_BYTES - chunk->base) >> PAGE_SHIFT);
    return chunk != NULL && chunk->flags[i] & PAGE_KNOWN &&
           (long)table_bucket(chunk->hotness[i]) < wish->h;
}

/* True if a page may be demoted. Memory is read without the table's lock. */
static bool may_go(struct table *table, const struct wish *wish, const struct judge *judge,
                   uintptr_t page)
{
    bool tail = false;
    /* A page that has become a part of a huge page since it was read would move with all of
     * that. */
    bool may = !uffd_huge(judge->pagemap, page) &&
               (judge->uses == NULL || uses_write(judge->uses, page, &tail));
    pthread_mutex_lock(&table->lock);
    struct chunk *chunk = table_chunk(table, page, false);
    if (chunk != NULL && !may) {
        chunk->flags[(page - chunk->base) >> PAGE_SHIFT] |= PAGE_UNJUDGED;
    }
    may = may && (!tail || cold_before(table, wish, page));
    pthread_mutex_unlock(&table->lock);
    return may;
}

size_t choose(struct table *table, const struct wish *wish, const struct judge *judge,
              struct candidate *listed, uint64_t *out)
{
    size_t most = wish->limit > 0 && judge != NULL ? wish->limit + MAX_REFUSED : wish->limit,
           kept = 0;
    pthread_mutex_lock(&table->lock);
    size_t found = list(table, wish, most, listed);
    pthread_mutex_unlock(&table->lock);
    for (size_t n = 0; n < found && kept < wish->limit; n++) {
        if (judge == NULL || may_go(table, wish, judge, listed[n].address)) {
            out[kept++] = listed[n].address;
        }
    }
    return kept;
}
