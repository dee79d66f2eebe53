/* The pages to move: the coldest of the fast tier or the hottest of the slow one, and what is asked
 * about a page before it goes down. Without the interpreter's lock. */
#ifndef TIERWISE_EMT_CHOOSE_H
#define TIERWISE_EMT_CHOOSE_H

#include "table.h"
#include "uses.h"

/* Pages that one call refuses at most: asking about them takes some 5 ms, where each is of a pool.
 * One that was refused is not asked about again until it is seen written, so that the next call
 * comes further. */
#define MAX_REFUSED 2048

struct wish {
    enum tier tier;
    long h;
    long patience;
    size_t limit;
};

struct judge {
    struct uses *uses; /* NULL: every use of every page is seen */
    int pagemap;       /* a descriptor of /proc/self/pagemap, or -1 */
};

/* A page that is wished for. Equally hot ones come in an order that has nothing to do with their
 * addresses: neighbours were allocated together, and often are used together. */
struct candidate {
    float rank; /* the less, the sooner */
    uint32_t lot;
    uint64_t address;
};

/* The addresses of the pages that are wished for, those first that are wished for most; how many.
 * `judge` is NULL where nothing is asked about them. `out` has room for the limit, and `listed` for
 * the limit and MAX_REFUSED more. */
size_t choose(struct table *table, const struct wish *wish, const struct judge *judge,
              struct candidate *listed, uint64_t *out);

#endif
