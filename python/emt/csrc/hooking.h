/* Sets the hooks of CPython's allocators, and takes them away: those of the domain RAW stay until
 * the process ends, because blocks of the heaps do; the others are there while something asks.
 * The caller holds the interpreter's lock. */
#ifndef TIERWISE_EMT_HOOKING_H
#define TIERWISE_EMT_HOOKING_H

#include "common.h"

/* True if the interpreter's own functions allocate. Hooks of a tool that began before may be taken
 * away when it ends, and these with them. */
bool hooks_possible(void);

/* Sets the hooks for the first time; the heaps are open from now on. */
void hooks_start(void);

/* Something asks for a heap now, and nothing did. */
void hooks_needed(void);

/* A hook was called while nothing asks: after many such calls they go. */
void hooks_idle(void);

#endif
