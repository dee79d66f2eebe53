/* Allocation sites: the line of the innermost Python frame. They are found in the allocator's
 * hooks, without running Python or allocating its memory. */
#ifndef TIERWISE_EMT_SITES_H
#define TIERWISE_EMT_SITES_H

#include "common.h"

/* No site, or a line of which nothing is known. */
#define NO_SITE 0

/* The number of the site of this moment's allocation. The caller holds the interpreter's lock. */
uint32_t site_now(PyThreadState *state);

/* Has code objects keep what is known of their instructions. Called once, before the others. 0, or
 * -1 with an exception set. */
int sites_start(void);
/* Has sites be numbered by (file name, line) from a dict, as a profile has them; before that, each
 * line that is met gets a new number. 0, or -1 with an exception set. */
int sites_known(PyObject *numbers);
/* A new list of (file name, function, line) by number, from 1 on. */
PyObject *sites_list(void);
uint32_t sites_count(void);

#endif
