/* Which pages are touched: a rotating part of the program's pages is protected for a window, and
 * checked at its end.
 *
 * A page that was touched within a window of w of an interval of T gets the hotness SCALE * T / w,
 * at most MAX_HOTNESS: a rate. One that was not stays protected and costs nothing until it is
 * touched; when its turn comes again, the time since then was its window. So hot pages are
 * distinguished from warm ones by short windows, and warm ones from cold ones by whole rotations.
 */
#ifndef TIERWISE_EMT_TRACKER_H
#define TIERWISE_EMT_TRACKER_H

#include "ranges.h"
#include "table.h"
#include "uffd.h"

struct tracker {
    struct uffd uffd;
    struct ranges now,
        before;       /* what is mapped, and what was when it was last read: what is registered */
    uintptr_t cursor; /* where the rotation goes on */
    int64_t fault_ns;
    unsigned samples; /* taken so far */
};

/* The parameters of a sample. */
struct sampling {
    int64_t interval_ns;
    int64_t window_ns;
    size_t pages; /* to protect in each window */
    float k;      /* of equation 1, for each check */
    int stop;     /* a descriptor that becomes readable when it is to end early */
};

/* The result of a sample. */
struct sampled {
    size_t tested;  /* pages whose window ended */
    size_t touched; /* of those, touched within it */
    size_t faults;  /* first touches of protected pages, which the program paid for */
    size_t rounds;  /* how often the rotation came to its end */
    int64_t cpu_ns; /* of the calling thread */
    int64_t wall_ns;
};

/* 0, or an error number. */
int tracker_sample(struct tracker *tracker, struct table *table, const struct sampling *asked,
                   struct sampled *did);

/* Removes all protection. In a child, whose memory has none, it only closes the inherited
 * descriptors. */
void tracker_release(struct tracker *tracker);

#endif
