#ifndef TIERWISE_EMT_TABLE_OBJECT_H
#define TIERWISE_EMT_TABLE_OBJECT_H

#include "table.h"

struct table_object {
    PyObject_HEAD struct table table;
};

/* Returns the table of a Table; NULL with TypeError for another object. */
struct table *table_of(PyObject *object);

#endif
