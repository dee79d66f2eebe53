#include "tracker.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

/* Hotness of one touch per interval. With windows down to 1/32 of an interval, rates fill the ten
 * buckets of the histogram. */
#define SCALE 32.0f
#define MAX_HOTNESS 1023.0f

/* New memory is found once a second at the default interval, and with certainty within eight
 * seconds. Reading the maps of a program with some hundred mappings takes a fifth of a millisecond,
 * and registering them takes as long again. */
#define SAMPLES_PER_REFRESH 4
#define REFRESHES_PER_REGISTER 8

/* Pieces of a window: 256 MiB, more than any budget lets it protect. */
#define MAX_PIECES 1024

struct pieces {
    uintptr_t start[MAX_PIECES], end[MAX_PIECES];
    size_t count, pages;
};

static float rate(const struct sampling *asked, int64_t window_ns)
{
    float hotness = SCALE * (float)asked->interval_ns / (float)(window_ns > 0 ? window_ns : 1);
    return hotness < MAX_HOTNESS ? hotness : MAX_HOTNESS;
}

/* True if the same range was in the previous reading of the maps. */
static bool was_there(const struct ranges *before, struct range range, size_t *at)
{
    while (*at < before->count && before->all[*at].start < range.start) {
        ++*at;
    }
    return *at < before->count && before->all[*at].start == range.start &&
           before->all[*at].end == range.end;
}

/* Registers the current mappings, at intervals. It skips ranges that cannot be registered (another
 * userfaultfd has them, or they changed meanwhile). At longer intervals it registers everything,
 * which includes memory that was unmapped and mapped again at the same place. */
static int refresh(struct tracker *tracker)
{
    if (tracker->samples++ % SAMPLES_PER_REFRESH != 0) {
        return 0;
    }
    bool everything = tracker->samples / SAMPLES_PER_REFRESH % REFRESHES_PER_REGISTER == 0;
    struct ranges before = tracker->before;
    tracker->before = tracker->now;
    tracker->now = before;
    int error = ranges_read(&tracker->now);
    size_t kept = 0, at = 0;
    for (size_t n = 0; error == 0 && n < tracker->now.count; n++) {
        struct range range = tracker->now.all[n];
        if ((!everything && was_there(&tracker->before, range, &at)) ||
            uffd_register(&tracker->uffd, range.start, range.end) == 0) {
            tracker->now.all[kept++] = range;
        }
    }
    tracker->now.count = kept;
    return error;
}

/* Returns the index of the first range that ends after the cursor; the number of ranges if there is
 * none. */
static size_t range_at(const struct ranges *now, uintptr_t cursor)
{
    size_t low = 0, high = now->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (now->all[middle].end <= cursor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Finds the next piece of the rotation with a present page; false at the end of the rotation. */
static bool next_piece(struct tracker *tracker, uintptr_t *start, uintptr_t *end)
{
    const struct ranges *now = &tracker->now;
    for (size_t n = range_at(now, tracker->cursor); n < now->count; n++) {
        struct range range = now->all[n];
        uintptr_t from = tracker->cursor > range.start ? tracker->cursor : range.start;
        *start = uffd_next_present(&tracker->uffd, from, range.end);
        if (*start < range.end) {
            *end = (*start & ~(PIECE_BYTES - 1)) + PIECE_BYTES;
            *end = *end < range.end ? *end : range.end;
            tracker->cursor = *end;
            return true;
        }
    }
    return false;
}

/* Updates the state of a chunk's pages after a check of some of them. Returns the number of checked
 * pages. With `ends_window` all of them count, as protected for a window. Otherwise only pages that
 * stayed protected count, as protected since their piece's last check. */
static size_t take_regions(struct table *table, const struct uffd_way *way,
                           const struct emt_page_region *regions, long count,
                           const struct sampling *asked, struct sampled *did, bool ends_window,
                           int64_t now_ns)
{
    size_t pages = 0;
    for (long n = 0; n < count; n++) {
        bool touched = regions[n].categories & way->touched;
        for (uintptr_t address = regions[n].start; address < regions[n].end;
             address += PAGE_BYTES) {
            struct chunk *chunk = table_chunk(table, address, true);
            if (chunk == NULL) {
                return pages;
            }
            unsigned i = (unsigned)((address - chunk->base) >> PAGE_SHIFT);
            bool left = chunk->flags[i] & PAGE_PROTECTED;
            pages++;
            if (ends_window) {
                table_see(table, chunk, i, touched ? rate(asked, asked->window_ns) : 0.0f,
                          asked->k);
                did->tested++;
                did->touched += touched;
                did->faults += touched;
                chunk->flags[i] |= PAGE_PROTECTED;
            } else {
                if (left) {
                    table_see(table, chunk, i,
                              touched ? rate(asked, now_ns - chunk->visited_ns[i / PIECE_PAGES])
                                      : 0.0f,
                              asked->k);
                    did->faults += touched;
                }
                chunk->flags[i] &= (uint8_t)~PAGE_PROTECTED;
            }
            if (touched) {
                chunk->flags[i] &= (uint8_t)~(PAGE_PROTECTED | PAGE_UNJUDGED);
            }
        }
    }
    return pages;
}

/* Protects pieces until they have enough pages. */
static int start_window(struct tracker *tracker, struct table *table, const struct sampling *asked,
                        struct sampled *did, struct pieces *pieces)
{
    struct emt_page_region regions[REGIONS];
    size_t rounds = did->rounds;
    pieces->count = pieces->pages = 0;
    while (pieces->pages < asked->pages && pieces->count < MAX_PIECES && did->rounds < rounds + 2) {
        uintptr_t start, end;
        if (!next_piece(tracker, &start, &end)) {
            did->rounds++;
            tracker->cursor = 0;
            continue;
        }
        long found = tracker->uffd.way->protect(&tracker->uffd, start, end, regions);
        if (found <= 0) {
            /* No page is present, or the range was unmapped after the maps were read. */
            continue;
        }
        pthread_mutex_lock(&table->lock);
        pieces->pages += take_regions(table, tracker->uffd.way, regions, found, asked, did, false,
                                      monotonic_ns());
        pthread_mutex_unlock(&table->lock);
        pieces->start[pieces->count] = start;
        pieces->end[pieces->count++] = end;
    }
    return 0;
}

static void end_window(struct tracker *tracker, struct table *table, const struct sampling *asked,
                       struct sampled *did, const struct pieces *pieces)
{
    struct emt_page_region regions[REGIONS];
    for (size_t n = 0; n < pieces->count; n++) {
        long found = uffd_scan(&tracker->uffd, pieces->start[n], pieces->end[n], 0, regions);
        pthread_mutex_lock(&table->lock);
        if (found > 0) {
            int64_t now_ns = monotonic_ns();
            take_regions(table, tracker->uffd.way, regions, found, asked, did, true, now_ns);
            struct chunk *chunk = table_chunk(table, pieces->start[n], false);
            if (chunk != NULL) {
                chunk->visited_ns[(pieces->start[n] - chunk->base) / PIECE_BYTES] = now_ns;
            }
        }
        pthread_mutex_unlock(&table->lock);
    }
}

bool tracker_wait(int stop, int64_t until_ns)
{
    int64_t left;
    while ((left = until_ns - monotonic_ns()) > 0) {
        struct timespec wait = {left / 1000000000, left % 1000000000};
        struct pollfd poll = {.fd = stop, .events = POLLIN};
        int ready = ppoll(&poll, 1, &wait, NULL);
        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return true;
        }
    }
    return false;
}

int tracker_sample(struct tracker *tracker, struct table *table, const struct sampling *asked,
                   struct sampled *did)
{
    struct pieces pieces;
    int64_t began_cpu = thread_cpu_ns(), began = monotonic_ns(), end = began + asked->interval_ns;
    memset(did, 0, sizeof *did);
    int error = refresh(tracker);
    bool stopped = false;
    while (error == 0 && !stopped && monotonic_ns() + asked->window_ns / 2 < end) {
        int64_t until = monotonic_ns() + asked->window_ns;
        start_window(tracker, table, asked, did, &pieces);
        stopped = tracker_wait(asked->stop, until);
        if (!stopped) {
            end_window(tracker, table, asked, did, &pieces);
        }
    }
    if (!stopped && error == 0) {
        tracker_wait(asked->stop, end);
    }
    did->cpu_ns = thread_cpu_ns() - began_cpu;
    did->wall_ns = monotonic_ns() - began;
    return error;
}

void tracker_release(struct tracker *tracker)
{
    bool registered = uffd_kept(&tracker->uffd) && uffd_own(&tracker->uffd);
    for (size_t n = 0; registered && n < tracker->now.count; n++) {
        uffd_unregister(&tracker->uffd, tracker->now.all[n].start, tracker->now.all[n].end);
    }
    /* Closing the descriptor makes the kernel remove the remaining protection, of ranges that were
     * mapped again or moved. */
    uffd_close(&tracker->uffd);
    ranges_clear(&tracker->now);
    ranges_clear(&tracker->before);
}
