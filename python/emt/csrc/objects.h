/* Samples the reference counts of objects, pool by pool, without the interpreter's lock. */
#ifndef TIERWISE_EMT_OBJECTS_H
#define TIERWISE_EMT_OBJECTS_H

#include "pools.h"
#include "table.h"
#include "types.h"

/* The paper's changes[0..7]. */
#define SAMPLES 8
/* Two phases are skipped for an object whose changes are all zero (section 5.2). */
#define SKIPPED_PHASES 2
/* A block without an object. */
#define NO_OBJECT 0xff

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

/* Returns the place of an object of one of the types in a block, or NO_OBJECT; `likely` is the
 * place of the previous object. */
uint8_t find_object(const char *block, uint32_t block_bytes, const struct types *types,
                    uint8_t *likely);

/* Takes the next pools with at most this many blocks, and finds the objects in them. 0, or an
 * error number. */
int objects_collect(struct objects *objects, const struct types *types, size_t most);
/* One sampling phase; returns the number of objects sampled. */
size_t objects_sample(struct objects *objects);
/* Reports the summed hotness of the pages of this turn to the table, by the linear model: weights
 * of median, deviation, nonzero, small, range, and the intercept. */
void objects_report(struct objects *objects, struct table *table, const float weights[6], float k);
void objects_clear(struct objects *objects);

#endif
