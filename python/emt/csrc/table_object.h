#ifndef TIERWISE_EMT_TABLE_OBJECT_H
#define TIERWISE_EMT_TABLE_OBJECT_H

#include "table.h"

struct table_object {
    PyObject_HEAD struct table table;
};

/* Returns the table of a Table; NULL with TypeError for another object. */
struct table *table_of(PyObject *object);

/* Methods in table_changes.c. */
extern const char table_place_doc[];
PyObject *table_place(PyObject *self, PyObject *args);
extern const char table_refuse_doc[];
PyObject *table_refuse(PyObject *self, PyObject *args);
extern const char table_take_doc[];
PyObject *table_take(PyObject *self, PyObject *args);
extern const char table_hold_doc[];
PyObject *table_hold(PyObject *self, PyObject *ranges);
extern const char table_check_doc[];
PyObject *table_check(PyObject *self, PyObject *args);

/* In table_spread.c. */
extern const char table_spread_doc[];
PyObject *table_spread(PyObject *self, PyObject *args);

#endif
