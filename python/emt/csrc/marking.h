#ifndef TIERWISE_EMT_MARKING_H
#define TIERWISE_EMT_MARKING_H

#include "common.h"

int add_marking(PyObject *module);

#endif
