#ifndef TIERWISE_EMT_PENDING_H
#define TIERWISE_EMT_PENDING_H

#include "common.h"

int add_pending(PyObject *module);

#endif
