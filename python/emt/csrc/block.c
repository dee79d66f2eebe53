/* `HeapBlock`: a `with` block, whose thread makes new objects in a heap.
 *
 * Not in Python: programs open a block for each object that they make, and each call of a Python
 * method makes objects of its own, within the block. The caller holds the interpreter's lock. */
#include "wanted.h"

#include <stdlib.h>
#include <string.h>

/* A block that is open: who opened it, and the thread's setting before. */
struct opened {
    unsigned long thread;
    uint8_t before;
};

struct block {
    PyObject_HEAD uint8_t tier;
    struct opened *opened; /* in the order of their opening */
    size_t count, room;
};

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", NULL};
    unsigned char tier;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "b:HeapBlock", names, &tier)) {
        return NULL;
    }
    if (tier >= HEAP_TIERS) {
        return PyErr_Format(PyExc_ValueError, "no tier: %d", (int)tier);
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL) {
        ((struct block *)self)->tier = tier;
    }
    return self;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free(((struct block *)self)->opened);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct block *block = (struct block *)self;
    if (block->count == block->room) {
        size_t room = block->room ? 2 * block->room : 4;
        struct opened *all = realloc(block->opened, room * sizeof *all);
        if (all == NULL) {
            return PyErr_NoMemory();
        }
        block->opened = all;
        block->room = room;
    }
    block->opened[block->count++] =
        (struct opened){PyThread_get_thread_ident(), heaps_switch(block->tier)};
    return Py_NewRef(self);
}

static PyObject *leave(PyObject *self, PyObject *const *Py_UNUSED(error), Py_ssize_t Py_UNUSED(n))
{
    struct block *block = (struct block *)self;
    unsigned long thread = PyThread_get_thread_ident();
    /* A generator may be closed by another thread, whose setting is its own. */
    for (size_t n = block->count; n-- > 0;) {
        if (block->opened[n].thread == thread) {
            heaps_switch(block->opened[n].before);
            block->count--;
            memmove(&block->opened[n], &block->opened[n + 1],
                    (block->count - n) * sizeof *block->opened);
            break;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "A `with` block, whose thread makes new objects in a heap: 1 the cold one, 2 the "
                "hot one. Blocks may be nested, used again, and by several threads."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tierwise.emt._emt.HeapBlock",
    .basicsize = sizeof(struct block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int add_block(PyObject *module)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int error = PyModule_AddType(module, type);
    Py_DECREF(type);
    return error;
}
