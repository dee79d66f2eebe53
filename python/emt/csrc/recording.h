/* A recording of allocation sites: each site's blocks have pages of their own, so that what the
 * kernel reports of pages is known of sites. The caller holds the interpreter's lock. */
#ifndef TIERWISE_EMT_RECORDING_H
#define TIERWISE_EMT_RECORDING_H

#include "heap.h"

/* A recording is on: then it is until the process ends. */
extern bool recording;
/* The blocks that it has seen. */
extern uint64_t recorded_blocks;

/* Starts a recording; false: there is no memory. */
bool recording_start(void);

/* The bins of a site; those of unknown sites if there is no memory for more. */
struct bins *recording_bins(uint32_t site);

#endif
