/* Allocation sites: the line of the innermost Python frame. They are found in the allocator's
 * hooks, without running Python or allocating its memory. */
#ifndef TIERWISE_EMT_SITES_H
#define TIERWISE_EMT_SITES_H

#include "common.h"

/* No site, or a line of which nothing is known. */
#define NO_SITE 0

/* The number of the site of this moment's allocation. The caller holds the interpreter's lock. */
uint32_t site_now(PyThreadState *state);

/* Sites by (file name, line), as a profile has them: numbers from a dict; or, with NULL, a new
 * number for each line that is met. 0, or -1 with an exception set. */
int sites_known(PyObject *numbers);
/* A new list of (file name, function, line) by number, from 1 on. */
PyObject *sites_list(void);
uint32_t sites_count(void);

#endif
