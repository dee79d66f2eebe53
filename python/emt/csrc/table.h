/* The software page table for whole pages: eleven bytes per page, in chunks of 2 MiB of addresses.
 *
 * It gives the same answers as the plain table of reproduction/, without the interpreter's lock. No
 * function calls Python. */
#ifndef TIERWISE_EMT_TABLE_H
#define TIERWISE_EMT_TABLE_H

#include "common.h"

#include <pthread.h>

#define BUCKETS 10
#define CHUNK_PAGES 512
#define CHUNK_BYTES (CHUNK_PAGES * PAGE_BYTES)
/* Pages that are protected and checked together: so few that even the shortest window's budget pays
 * for several pieces. */
#define PIECE_PAGES 64
#define PIECE_BYTES (PIECE_PAGES * PAGE_BYTES)

enum tier { TIER_FAST, TIER_SLOW };

/* Bits of `flags`. */
#define PAGE_KNOWN 1     /* was found present */
#define PAGE_PROTECTED 2 /* was protected, and had not been touched at the last check */
#define PAGE_UNJUDGED                                                                              \
    4 /* could not be demoted at the last check, and was not reported as written since */
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
    uint8_t refusals[CHUNK_PAGES]; /* moves in a row that were requested and failed */
    uint8_t rests[CHUNK_PAGES];    /* rounds in which no move is requested */
    uint8_t flags[CHUNK_PAGES];
    uint16_t touched[CHUNK_PAGES]; /* when it was last found touched, or first found; in TICKs */
};

/* The unit of `touched`: 36 hours fit into 16 bits. */
#define TICK_NS INT64_C(2000000000)

struct held_range {
    uint64_t start, end;
};

struct table {
    pthread_mutex_t lock;
    struct chunk **chunks; /* by address */
    size_t count, room;
    size_t pages; /* with PAGE_KNOWN */
    size_t last;  /* where the last search ended: callers look up neighbours in succession */
    int64_t began_ns;
    struct held_range *held; /* by address, none overlap: the program has placed these itself */
    size_t held_count;
};

int table_init(struct table *table);
void table_clear(struct table *table);

/* Returns the chunk of an address, and creates it if it does not exist and `make` is set. NULL: it
 * does not exist, or there is no memory. The caller holds the lock. */
struct chunk *table_chunk(struct table *table, uintptr_t address, bool make);

/* Applies equation 1 to one page, and makes it known. The caller holds the lock. */
void table_see(struct table *table, struct chunk *chunk, unsigned index, float seen, float k);

/* Ticks since the table was made, at most UINT16_MAX. */
uint16_t table_now(const struct table *table);

unsigned table_bucket(float hotness);

/* True if the program has placed a page itself. The caller holds the lock. */
bool table_held(const struct table *table, uint64_t address);

/* Runs a body for each known page, with `chunk` and `i` set. Most methods use it. */
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
