/* Samples the reference counts of objects, pool by pool, without the interpreter's lock. */
#ifndef EMT_REPRODUCTION_OBJECTS_H
#define EMT_REPRODUCTION_OBJECTS_H

#include "pools.h"

/* The paper's changes[0..7]. */
#define SAMPLES 8
/* Two phases are skipped for an object whose changes are all zero (section 5.2). */
#define SKIPPED_PHASES 2

/* 16 bytes per object; the paper's metadata take 20, because they include the object's address. */
struct object {
    uint32_t previous;
    uint8_t changes[SAMPLES];
    uint8_t offset; /* of the object in its block; it depends on the object's type */
    uint8_t skipped;
    uint16_t pad;
};

struct objects {
    struct pools pools;
    struct object *all;
    size_t count;       /* of `all`, blocks of the pools of this turn */
    size_t known;       /* of those, objects */
    size_t first, last; /* pools of this turn */
    size_t next;        /* pool with which the next turn starts */
    unsigned phase;     /* samples taken in this turn */
    bool growth;        /* true: the upper half's counter is read; false: the reference count */
};

/* Takes the next pools with at most this many blocks, and finds the objects in them. 0, or an
 * error number. */
int objects_collect(struct objects *objects, const struct types *types, size_t most);
/* One sampling phase; returns the number of objects sampled. */
size_t objects_sample(struct objects *objects);
/* Writes the pages of this turn that are not freed, and the summed hotness of the objects on each
 * by the linear model: weights of median, deviation, nonzero, small, range, and the intercept.
 * There is room for `objects_pages` of them. Returns their number. */
size_t objects_report(const struct objects *objects, const float weights[6], uint64_t *addresses,
                      float *hotness);
size_t objects_pages(const struct objects *objects);
void objects_clear(struct objects *objects);

#endif
