/* The heap that a new block comes from: the one that the thread's `with` block or the allocation
 * site asks for. The caller holds the interpreter's lock. */
#ifndef TIERWISE_EMT_WANTED_H
#define TIERWISE_EMT_WANTED_H

#include "heaps.h"

/* Threads that ask for a tier, and one more if sites do: with 0 the hooks pass on, and are taken
 * away soon. A thread that ends within a block is counted on, which costs the others only that. */
extern unsigned asking;

/* The bins that this thread's block asked for; NULL: it asks for none. The model costs one load
 * relative to a register; it fits in the room that the C library leaves for libraries loaded
 * later. */
extern _Thread_local struct bins *wanted_bins __attribute__((tls_model("initial-exec")));

/* The state of this thread, if it may have blocks of the heaps; NULL: it may not. Other
 * interpreters may have a lock of their own, and the heaps are the main one's. */
static inline PyThreadState *main_state(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyThreadState *state = PyThreadState_GetUnchecked();
#else
    PyThreadState *state = _PyThreadState_UncheckedGet();
#endif
    return state != NULL && state->interp == heaps.interpreter ? state : NULL;
}

/* The bins that the allocation site asks for; NULL: none. */
struct bins *bins_of_site(PyThreadState *state);

/* The bins for a new block; NULL: the original allocator's. Inline, as programs that open blocks
 * call it for each object that they make. */
static inline struct bins *bins_now(void)
{
    PyThreadState *state = main_state();
    if (state == NULL) {
        return NULL;
    }
    return wanted_bins != NULL ? wanted_bins : bins_of_site(state);
}

/* The bins of a block that a heap has. */
struct bins *bins_of(struct region *region, const void *block);

/* From now on sites ask too, as a profile or a recording has it. */
void sites_ask(void);

/* Sets where this thread's new blocks come from, and returns the setting before. */
uint8_t heaps_switch(uint8_t tier);

#endif
