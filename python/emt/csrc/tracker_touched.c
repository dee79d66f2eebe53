#include "tracker.h"

#include <errno.h>

int tracker_touched(struct tracker *tracker, struct table *table, const uint64_t *pages,
                    size_t count, int64_t window_ns, int stop, uint8_t *touched)
{
    struct emt_page_region regions[REGIONS];
    const struct uffd_way *way = tracker->uffd.way;
    int64_t until = monotonic_ns() + window_ns;
    for (size_t n = 0; n < count; n++) {
        way->protect(&tracker->uffd, pages[n], pages[n] + PAGE_BYTES, regions);
    }
    bool stopped = tracker_wait(stop, until);
    for (size_t n = 0; n < count; n++) {
        long found = uffd_scan(&tracker->uffd, pages[n], pages[n] + PAGE_BYTES, 0, regions);
        touched[n] = found > 0 && (regions[0].categories & way->touched) != 0;
    }
    pthread_mutex_lock(&table->lock);
    for (size_t n = 0; n < count; n++) {
        struct chunk *chunk = table_chunk(table, pages[n], false);
        if (chunk != NULL) {
            chunk->flags[(pages[n] - chunk->base) >> PAGE_SHIFT] &= (uint8_t)~PAGE_PROTECTED;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return stopped ? ECANCELED : 0;
}
