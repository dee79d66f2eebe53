/* The methods of `Table` that record what was found of pages. */
#include "table_object.h"

#include <stdlib.h>
#include <string.h>

const char table_place_doc[] = "place(addresses, fast)\n--\n\nRecords the tier of pages.";
PyObject *table_place(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    Py_buffer addresses;
    int fast;
    if (!PyArg_ParseTuple(args, "y*p:place", &addresses, &fast)) {
        return NULL;
    }
    const uint64_t *address = addresses.buf;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    for (Py_ssize_t n = 0; n < addresses.len / 8; n++) {
        struct chunk *chunk = table_chunk(table, address[n], false);
        if (chunk != NULL) {
            unsigned i = (unsigned)((address[n] - chunk->base) >> PAGE_SHIFT);
            chunk->tier[i] = fast ? TIER_FAST : TIER_SLOW;
            chunk->refusals[i] = 0;
        }
    }
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS PyBuffer_Release(&addresses);
    Py_RETURN_NONE;
}

const char table_refuse_doc[] =
    "refuse(addresses)\n--\n\nRecords that pages did not move: each rests for "
    "a round, and twice as long each time.";
PyObject *table_refuse(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    Py_buffer addresses;
    if (!PyArg_ParseTuple(args, "y*:refuse", &addresses)) {
        return NULL;
    }
    const uint64_t *address = addresses.buf;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    for (Py_ssize_t n = 0; n < addresses.len / 8; n++) {
        struct chunk *chunk = table_chunk(table, address[n], false);
        if (chunk != NULL) {
            unsigned i = (unsigned)((address[n] - chunk->base) >> PAGE_SHIFT);
            /* One more than the rounds of rest: the next round's judgement subtracts one. */
            chunk->rests[i] = (uint8_t)((1u << chunk->refusals[i]) + 1);
            chunk->refusals[i] += chunk->refusals[i] < MAX_REFUSALS;
        }
    }
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS PyBuffer_Release(&addresses);
    Py_RETURN_NONE;
}

const char table_hold_doc[] =
    "hold(ranges)\n--\n\n"
    "Sets the ranges of pages that are not chosen for a move: pairs of a first address and the one "
    "after the last (8 bytes each), ascending, without overlap.";
PyObject *table_hold(PyObject *self, PyObject *ranges)
{
    struct table *table = &((struct table_object *)self)->table;
    Py_buffer pairs;
    if (PyObject_GetBuffer(ranges, &pairs, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    size_t count = (size_t)pairs.len / sizeof(struct held_range);
    struct held_range *held = malloc((count + 1) * sizeof *held);
    if (held != NULL) {
        memcpy(held, pairs.buf, count * sizeof *held);
    }
    PyBuffer_Release(&pairs);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    struct held_range *before = table->held;
    table->held = held;
    table->held_count = count;
    pthread_mutex_unlock(&table->lock);
    free(before);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* Reads addresses and hotness from a dict. Converting a number may run the program's code, which
 * may change the dict or call the table. Returns their number; -1 with an exception set. */
static Py_ssize_t read_seen(PyObject *pages, uint64_t **addresses, float **seen)
{
    PyObject *items = PyDict_Items(pages);
    Py_ssize_t count = items == NULL ? 0 : PyList_GET_SIZE(items);
    *addresses = malloc(((size_t)count + 1) * sizeof **addresses);
    *seen = malloc(((size_t)count + 1) * sizeof **seen);
    if (items != NULL && (*addresses == NULL || *seen == NULL)) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t n = 0; n < count && !PyErr_Occurred(); n++) {
        PyObject *item = PyList_GET_ITEM(items, n);
        (*addresses)[n] = PyLong_AsSize_t(PyTuple_GET_ITEM(item, 0));
        (*seen)[n] = PyErr_Occurred() ? 0.0f : (float)PyFloat_AsDouble(PyTuple_GET_ITEM(item, 1));
    }
    Py_XDECREF(items);
    return PyErr_Occurred() ? -1 : count;
}

const char table_take_doc[] =
    "see(pages, k)\n--\n\n"
    "An interval's hotness of pages (a dict of address to hotness); all known "
    "pages cool by equation 1, with weight k. All of it or\n"
    "nothing, if something in it is no number.";
PyObject *table_take(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    PyObject *pages;
    float k, *seen;
    uint64_t *addresses;
    if (!PyArg_ParseTuple(args, "O!f:see", &PyDict_Type, &pages, &k)) {
        return NULL;
    }
    Py_ssize_t count = read_seen(pages, &addresses, &seen);
    if (count >= 0) {
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
        EACH_PAGE(table, {
            chunk->hotness[i] *= 1.0f - k;
            chunk->flags[i] |= PAGE_SAMPLED;
        })
        for (Py_ssize_t n = 0; n < count; n++) {
            struct chunk *chunk = table_chunk(table, addresses[n], true);
            if (chunk == NULL) {
                break;
            }
            unsigned i = (unsigned)((addresses[n] - chunk->base) >> PAGE_SHIFT);
            table_see(table, chunk, i, seen[n], 0.0f);
            chunk->hotness[i] += k * seen[n];
            chunk->flags[i] &= (uint8_t)~PAGE_UNJUDGED;
        }
        pthread_mutex_unlock(&table->lock);
        Py_END_ALLOW_THREADS
    }
    free(addresses);
    free(seen);
    if (count < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

const char table_check_doc[] =
    "check(addresses, hotness, k)\n--\n\n"
    "Pages that were checked (addresses of 8 bytes each) and the hotness that "
    "was found (4 bytes each, float); they alone cool by equation 1.\n\n"
    "Raises:\n    ValueError: The two have different lengths.";
PyObject *table_check(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    Py_buffer addresses, hotness;
    float k;
    if (!PyArg_ParseTuple(args, "y*y*f:check", &addresses, &hotness, &k)) {
        return NULL;
    }
    const uint64_t *address = addresses.buf;
    const float *seen = hotness.buf;
    bool equal = addresses.len / 8 == hotness.len / 4;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    for (Py_ssize_t n = 0; equal && n < addresses.len / 8; n++) {
        struct chunk *chunk = table_chunk(table, address[n], true);
        if (chunk == NULL) {
            break;
        }
        unsigned i = (unsigned)((address[n] - chunk->base) >> PAGE_SHIFT);
        table_see(table, chunk, i, seen[n], k);
        chunk->flags[i] &= (uint8_t)~PAGE_UNJUDGED;
    }
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS if (!equal)
    {
        PyErr_Format(PyExc_ValueError, "%zd addresses and %zd numbers; allowed: as many of each",
                     addresses.len / 8, hotness.len / 4);
    }
    PyBuffer_Release(&addresses);
    PyBuffer_Release(&hotness);
    if (!equal) {
        return NULL;
    }
    Py_RETURN_NONE;
}
