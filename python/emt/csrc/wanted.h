/* The heap that a new block comes from: the one that the thread's `with` block or the allocation
 * site asks for. The caller holds the interpreter's lock. */
#ifndef TIERWISE_EMT_WANTED_H
#define TIERWISE_EMT_WANTED_H

#include "heaps.h"

/* Threads that ask for a tier, and one more if sites do: with 0 the hooks pass on, and are taken
 * away soon. A thread that ends within a block is counted on, which costs the others only that. */
extern unsigned asking;

/* The state of this thread, if it may have blocks of the heaps; NULL: it may not. Other
 * interpreters may have a lock of their own, and the heaps are the main one's. */
PyThreadState *main_state(void);

/* The bins for a new block; NULL: the original allocator's. */
struct bins *bins_now(void);

/* The bins of a block that a heap has. */
struct bins *bins_of(struct region *region, const void *block);

/* From now on sites ask too, as a profile or a recording has it. */
void sites_ask(void);

/* Sets where this thread's new blocks come from, and returns the setting before. */
uint8_t heaps_switch(uint8_t tier);

#endif
