/* The marking phase of EMT (section 5.1, algorithm 1): it finds all objects that can be reached
 * from those that the collector tracks.
 *
 * It holds the interpreter's lock throughout, as the paper's does. Two limits end the visit of a
 * container: the number of its children, and its depth below a tracked object. The paper does not
 * give its limits. */
#include "module.h"

#include <stdlib.h>

struct marking {
    uintptr_t *set; /* the paper's global_set: open addressing */
    size_t mask, members;
    uint64_t *found; /* the paper's hotness_arr, in the order of the visit */
    size_t room;
    Py_ssize_t max_length, max_depth;
    Py_ssize_t depth, length; /* of the container that is visited now */
    bool failed;
};

static size_t slot_of(const struct marking *marking, uintptr_t address)
{
    /* Fibonacci hashing: addresses are multiples of 16. */
    size_t at = (size_t)((address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & marking->mask;
    while (marking->set[at] != 0 && marking->set[at] != address) {
        at = (at + 1) & marking->mask;
    }
    return at;
}

static bool grow(struct marking *marking)
{
    size_t slots = (marking->mask + 1) * 2;
    uintptr_t *set = calloc(slots, sizeof *set);
    uint64_t *found = realloc(marking->found, slots / 2 * sizeof *found);
    if (found != NULL) {
        marking->found = found;
        marking->room = slots / 2;
    }
    if (set == NULL || found == NULL) {
        free(set);
        return false;
    }
    free(marking->set);
    marking->set = set;
    marking->mask = slots - 1;
    for (size_t n = 0; n < marking->members; n++) {
        set[slot_of(marking, (uintptr_t)found[n])] = (uintptr_t)found[n];
    }
    return true;
}

/* True if an object is new; then it is a member now. */
static bool insert(struct marking *marking, PyObject *object)
{
    size_t at = slot_of(marking, (uintptr_t)object);
    if (marking->set[at] != 0) {
        return false;
    }
    if (marking->members + 1 >= marking->room) {
        if (!grow(marking)) {
            marking->failed = true;
            return false;
        }
        at = slot_of(marking, (uintptr_t)object);
    }
    marking->set[at] = (uintptr_t)object;
    marking->found[marking->members++] = (uint64_t)(uintptr_t)object;
    return true;
}

static int visit_child(PyObject *child, void *context);

static void visit(struct marking *marking, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    /* A static type has no references, and CPython aborts when it must report them. */
    bool static_type =
        PyType_Check(object) && !PyType_HasFeature((PyTypeObject *)object, Py_TPFLAGS_HEAPTYPE);
    if (type->tp_traverse == NULL || !PyObject_IS_GC(object) || static_type ||
        marking->depth >= marking->max_depth) {
        return;
    }
    Py_ssize_t length = marking->length;
    marking->depth++;
    marking->length = 0;
    type->tp_traverse(object, visit_child, marking);
    marking->depth--;
    marking->length = length;
}

/* A result other than zero ends the visit of the container. */
static int visit_child(PyObject *child, void *context)
{
    struct marking *marking = context;
    if (marking->failed || ++marking->length > marking->max_length) {
        return 1;
    }
    if (insert(marking, child)) {
        visit(marking, child);
    }
    return 0;
}

#if PY_VERSION_HEX >= 0x030c0000
static int visit_tracked(PyObject *object, void *context)
{
    struct marking *marking = context;
    marking->depth = marking->length = 0;
    if (insert(marking, object)) {
        visit(marking, object);
    }
    return !marking->failed;
}

static int visit_all(struct marking *marking)
{
    PyUnstable_GC_VisitObjects(visit_tracked, marking);
    return 0;
}
#else
static int visit_all(struct marking *marking)
{
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *tracked = gc == NULL ? NULL : PyObject_CallMethod(gc, "get_objects", NULL);
    Py_XDECREF(gc);
    if (tracked == NULL) {
        return -1;
    }
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(tracked) && !marking->failed; n++) {
        PyObject *object = PyList_GET_ITEM(tracked, n);
        marking->depth = marking->length = 0;
        if (insert(marking, object)) {
            visit(marking, object);
        }
    }
    Py_DECREF(tracked);
    return 0;
}
#endif

PyDoc_STRVAR(mark_doc, "mark(max_length, max_depth)\n--\n\n"
                       "The addresses (8 bytes each) of all objects that the collector's lists "
                       "reach. At most so many children of a container are visited,\n"
                       "and only containers less than so deep below a tracked one.\n\n"
                       "Raises:\n    ValueError: A limit is below 1, or a depth above 1000, for "
                       "which the stack may not do.");
static PyObject *mark(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct marking marking = {.mask = (1 << 16) - 1};
    if (!PyArg_ParseTuple(args, "nn:mark", &marking.max_length, &marking.max_depth)) {
        return NULL;
    }
    if (marking.max_length < 1 || marking.max_depth < 1 || marking.max_depth > 1000) {
        return PyErr_Format(
            PyExc_ValueError,
            "max_length %zd, max_depth %zd; allowed: 1 or more, and a depth of at most 1000",
            marking.max_length, marking.max_depth);
    }
    marking.set = calloc(marking.mask + 1, sizeof *marking.set);
    marking.room = (marking.mask + 1) / 2;
    marking.found = malloc(marking.room * sizeof *marking.found);
    marking.failed = marking.set == NULL || marking.found == NULL;
    PyObject *result = NULL;
    if (marking.failed || visit_all(&marking) == 0) {
        result = marking.failed ? PyErr_NoMemory()
                                : PyBytes_FromStringAndSize((char *)marking.found,
                                                            (Py_ssize_t)(marking.members * 8));
    }
    free(marking.set);
    free(marking.found);
    return result;
}

static PyMethodDef functions[] = {
    {"mark", mark, METH_VARARGS, mark_doc},
    {NULL, NULL, 0, NULL},
};

int add_marking(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
