/* The pages to move: the coldest of the fast tier or the hottest of the slow one, and the check of
 * a page before its demotion. The functions run without the interpreter's lock. */
#ifndef TIERWISE_EMT_CHOOSE_H
#define TIERWISE_EMT_CHOOSE_H

#include "table.h"
#include "uses.h"

/* Limit of pages that one call refuses: checking them takes some 5 ms if each belongs to a pool. A
 * refused page is not checked again until it is reported as written, so the next call checks other
 * pages. */
#define MAX_REFUSED 2048

struct wish {
    enum tier tier;
    long h;
    long patience;
    size_t limit;
};

struct judge {
    struct uses *uses; /* NULL: every use of every page is reported */
    int pagemap;       /* a descriptor of /proc/self/pagemap, or -1 */
};

/* A candidate. The order of equally hot ones does not follow their addresses: neighbours were
 * allocated together, and are often used together. */
struct candidate {
    float rank; /* smaller: earlier */
    uint32_t lot;
    uint64_t address;
};

/* Writes the addresses of the candidates, the best first, and returns their number. `judge` is
 * NULL if no check is needed. `out` has space for the limit, and `listed` for the limit and
 * MAX_REFUSED more. */
size_t choose(struct table *table, const struct wish *wish, const struct judge *judge,
              struct candidate *listed, uint64_t *out);

#endif
