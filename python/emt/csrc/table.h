/* The software page table for whole pages: nine bytes a page, in chunks of 2 MiB of addresses.
 *
 * The same answers as policy/page_table.py gives, without the interpreter's lock. Every function
 * but table_new takes the table's own lock; none touches Python. */
#ifndef TIERWISE_EMT_TABLE_H
#define TIERWISE_EMT_TABLE_H

#include "common.h"

#include <pthread.h>

#define BUCKETS 10
#define CHUNK_PAGES 512
#define CHUNK_BYTES (CHUNK_PAGES * PAGE_BYTES)
/* Pages that are protected and checked together: few enough that the shortest window's share of the
 * budget is some of them. */
#define PIECE_PAGES 64
#define PIECE_BYTES (PIECE_PAGES * PAGE_BYTES)

enum tier { TIER_FAST, TIER_SLOW };

/* Bits of `flags`. */
#define PAGE_KNOWN 1     /* was seen present */
#define PAGE_PROTECTED 2 /* was protected, and had not been touched at the last check */
#define PAGE_UNJUDGED                                                                              \
    4 /* could not go down when it was last asked, and was not seen written since */
#define PAGE_SAMPLED 8 /* since it was last judged */

/* A page that did not move is skipped for a round, and twice as long each time, up to 2^6
 * rounds: 16 seconds at the default interval. */
#define MAX_REFUSALS 6

struct chunk {
    uintptr_t base;
    int64_t visited_ns[CHUNK_PAGES / PIECE_PAGES]; /* time of each piece's last check; 0: never */
    float hotness[CHUNK_PAGES];
    uint8_t cold[CHUNK_PAGES]; /* samplings in a row that found the page cold, at most 255 */
    uint8_t tier[CHUNK_PAGES];
    uint8_t refusals[CHUNK_PAGES]; /* in a row: how often it was asked to move and did not */
    uint8_t rests[CHUNK_PAGES];    /* rounds in which it is not asked */
    uint8_t flags[CHUNK_PAGES];
};

struct table {
    pthread_mutex_t lock;
    struct chunk **chunks; /* by address */
    size_t count, room;
    size_t pages; /* with PAGE_KNOWN */
    size_t last;  /* where the last search ended: neighbours are asked for one after the other */
};

int table_init(struct table *table);
void table_clear(struct table *table);

/* The chunk of an address; made if it is not there and `make` is set. NULL: not there, or no
 * memory. Takes the lock as held. */
struct chunk *table_chunk(struct table *table, uintptr_t address, bool make);

/* Equation 1, for one page that becomes known. Takes the lock as held. */
void table_see(struct table *table, struct chunk *chunk, unsigned index, float seen, float k);

unsigned table_bucket(float hotness);

/* Walking all known pages, which most methods do. `chunk` and `i` are set in the body. */
#define EACH_PAGE(table, ...)                                                                      \
    for (size_t at_ = 0; at_ < (table)->count; at_++) {                                            \
        struct chunk *chunk = (table)->chunks[at_];                                                \
        for (unsigned i = 0; i < CHUNK_PAGES; i++) {                                               \
            if (chunk->flags[i] & PAGE_KNOWN) {                                                    \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

#endif
