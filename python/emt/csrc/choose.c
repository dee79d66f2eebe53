#include "choose.h"

#include "uffd.h"

static bool wished(const struct wish *wish, const struct chunk *chunk, unsigned i, long bucket)
{
    if (chunk->tier[i] != wish->tier || (wish->tier == TIER_FAST && chunk->flags[i] & PAGE_UNJUDGED)) {
        return false;
    }
    return wish->tier == TIER_FAST ? bucket < wish->h && chunk->cold[i] >= wish->patience : bucket >= wish->h;
}

static size_t list(struct table *table, const struct wish *wish, size_t most, uint64_t *out)
{
    size_t found = 0;
    for (long step = 0; step < BUCKETS && found < most; step++) {
        long bucket = wish->tier == TIER_FAST ? step : BUCKETS - 1 - step;
        EACH_PAGE(table, {
            if (found < most && (long)table_bucket(chunk->hotness[i]) == bucket && wished(wish, chunk, i, bucket)) {
                out[found++] = chunk->base + i * PAGE_BYTES;
            }
        })
    }
    return found;
}

/* Whether an object's tail may go down: the page before, on which its count is written, is as cold. */
static bool cold_before(struct table *table, const struct wish *wish, uintptr_t page)
{
    const struct chunk *chunk = table_chunk(table, page - PAGE_BYTES, false);
    unsigned i = chunk == NULL ? 0 : (unsigned)((page - PAGE_BYTES - chunk->base) >> PAGE_SHIFT);
    return chunk != NULL && chunk->flags[i] & PAGE_KNOWN && (long)table_bucket(chunk->hotness[i]) < wish->h;
}

/* Whether a page may go down. Memory is read without the table's lock. */
static bool may_go(struct table *table, const struct wish *wish, const struct judge *judge, uintptr_t page)
{
    bool tail = false;
    /* A part of a huge page, which was made since it was seen, is moved with all the rest of it. */
    bool may = !uffd_huge(judge->pagemap, page) && (judge->uses == NULL || uses_write(judge->uses, page, &tail));
    pthread_mutex_lock(&table->lock);
    struct chunk *chunk = table_chunk(table, page, false);
    if (chunk != NULL && !may) {
        chunk->flags[(page - chunk->base) >> PAGE_SHIFT] |= PAGE_UNJUDGED;
    }
    may = may && (!tail || cold_before(table, wish, page));
    pthread_mutex_unlock(&table->lock);
    return may;
}

size_t choose(struct table *table, const struct wish *wish, const struct judge *judge, uint64_t *out)
{
    size_t most = wish->limit > 0 && judge != NULL ? wish->limit + MOST_REFUSED : wish->limit;
    pthread_mutex_lock(&table->lock);
    size_t listed = list(table, wish, most, out), kept = 0;
    pthread_mutex_unlock(&table->lock);
    for (size_t n = 0; n < listed && kept < wish->limit; n++) {
        if (judge == NULL || may_go(table, wish, judge, out[n])) {
            out[kept++] = out[n];
        }
    }
    return kept;
}
