/* Finds touched pages: a rotating part of the program's pages is protected for a window, and
 * checked at its end.
 *
 * A page that was touched within a window of w of an interval of T gets the hotness SCALE * T / w,
 * at most MAX_HOTNESS: a rate. A page that was not touched stays protected and costs nothing until
 * it is touched. When the rotation reaches it again, the time since its protection was its window.
 * Short windows therefore distinguish hot pages from warm ones, and whole rotations distinguish
 * warm pages from cold ones.
 */
#ifndef TIERWISE_EMT_TRACKER_H
#define TIERWISE_EMT_TRACKER_H

#include "ranges.h"
#include "table.h"
#include "uffd.h"

struct tracker {
    struct uffd uffd;
    struct ranges now,
        before;       /* the mappings now and at the previous reading, which are registered */
    uintptr_t cursor; /* where the rotation continues */
    int64_t fault_ns;
    unsigned samples; /* taken so far */
};

/* The parameters of a sample. */
struct sampling {
    int64_t interval_ns;
    int64_t window_ns;
    size_t pages; /* pages to protect in each window */
    float k;      /* of equation 1, for each check */
    int stop;     /* a descriptor that becomes readable when the sample must end early */
};

/* The result of a sample. */
struct sampled {
    size_t tested;  /* pages whose window ended */
    size_t touched; /* of those, touched within it */
    size_t faults;  /* first touches of protected pages, which the program paid for */
    size_t rounds;  /* completed rotations */
    int64_t cpu_ns; /* of the calling thread */
    int64_t wall_ns;
};

/* Takes a sample. Returns 0, or an error number. */
int tracker_sample(struct tracker *tracker, struct table *table, const struct sampling *asked,
                   struct sampled *did);

/* Tells which of some pages are touched within a window, into `touched`: 1 or 0 for each. Pages
 * that are not there are not touched. The rotation does not count them at its next check, because
 * what it would have found is found here. Returns 0, or ECANCELED if it was stopped. */
int tracker_touched(struct tracker *tracker, struct table *table, const uint64_t *pages,
                    size_t count, int64_t window_ns, int stop, uint8_t *touched);

/* Waits until a time. Returns true if it was stopped. */
bool tracker_wait(int stop, int64_t until_ns);

/* Removes all protection. In a child, whose memory has none, it only closes the inherited
 * descriptors. */
void tracker_release(struct tracker *tracker);

#endif
