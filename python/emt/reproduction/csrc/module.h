/* The parts of the reproduction's extension. */
#ifndef EMT_REPRODUCTION_MODULE_H
#define EMT_REPRODUCTION_MODULE_H

#include "common.h"

/* Add the functions and types of a file to the module; -1 with an exception set. */
int add_marking(PyObject *module);
int add_sampler(PyObject *module);

#endif
