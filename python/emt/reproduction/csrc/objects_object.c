/* The sampler of objects as a Python object, `Objects`, and `counters`, which recursive marking
 * needs. */
#include "module.h"
#include "objects.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct objects_object {
    PyObject_HEAD struct objects objects;
    bool open;
    atomic_bool busy;
    unsigned fork_depth; /* of the process that created it */
};

#ifdef Py_GIL_DISABLED
#define SUPPORTED 0
#else
#define SUPPORTED 1
#endif

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"growth", NULL};
    int growth;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "p:Objects", names, &growth)) {
        return NULL;
    }
#ifndef PY_GROWTH_BUILD_ID
    if (growth) {
        PyErr_SetString(PyExc_OSError, "growth: this interpreter counts no changes of reference "
                                       "counts; growth/build.sh builds one that does");
        return NULL;
    }
#endif
    if (!SUPPORTED) {
        PyErr_SetString(PyExc_OSError, "a free-threaded interpreter has no pools of objects; only "
                                       "pages can be tracked (uffd-wp, uffd-rwp)");
        return NULL;
    }
    struct objects_object *self = (struct objects_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->objects.growth = growth;
    self->fork_depth = fork_depth();
    self->open = pools_watch(&self->objects.pools);
    if (!self->open) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_RuntimeError,
                        "objects are already sampled in this process; end that first");
        return NULL;
    }
    return (PyObject *)self;
}

static void release(struct objects_object *self)
{
    if (self->open) {
        self->open = false;
        pools_unwatch(&self->objects.pools);
        objects_clear(&self->objects);
    }
}

static void dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    release((struct objects_object *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* Reserves the object for one call; false with an exception if that is not possible. */
static bool enter(struct objects_object *self)
{
    if (atomic_exchange(&self->busy, true)) {
        PyErr_SetString(PyExc_RuntimeError, "the sampler is in use by another thread");
        return false;
    }
    if (!self->open) {
        self->busy = false;
        PyErr_SetString(PyExc_RuntimeError, "the sampler is closed");
        return false;
    }
    return true;
}

PyDoc_STRVAR(collect_doc, "collect(types, most)\n--\n\n"
                          "Takes the next pools with at most so many blocks. `types` are the "
                          "addresses of all types, 8 bytes each. Returns (pools in all, pools of\n"
                          "this turn, objects in them, nanoseconds of CPU time).");
static PyObject *collect(PyObject *object, PyObject *args)
{
    struct objects_object *self = (struct objects_object *)object;
    Py_buffer addresses;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "y*n:collect", &addresses, &most)) {
        return NULL;
    }
    if (!enter(self)) {
        PyBuffer_Release(&addresses);
        return NULL;
    }
    struct types types;
    int error = types_fill(&types, addresses.buf, (size_t)addresses.len / 8);
    int64_t cpu_ns = 0;
    Py_BEGIN_ALLOW_THREADS cpu_ns = thread_cpu_ns();
    error =
        error != 0 ? error : objects_collect(&self->objects, &types, most > 0 ? (size_t)most : 0);
    cpu_ns = thread_cpu_ns() - cpu_ns;
    types_clear(&types);
    Py_END_ALLOW_THREADS PyBuffer_Release(&addresses);
    self->busy = false;
    if (error != 0) {
        PyObject *text = PyUnicode_FromFormat(
            "pools of objects cannot be read (process_vm_readv): %s", strerror(error));
        PyObject *why = text == NULL ? NULL : Py_BuildValue("(iN)", error, text);
        if (why != NULL) {
            PyErr_SetObject(PyExc_OSError, why);
            Py_DECREF(why);
        }
        return NULL;
    }
    const struct objects *objects = &self->objects;
    return Py_BuildValue("(nnnL)", (Py_ssize_t)objects->pools.count,
                         (Py_ssize_t)(objects->last - objects->first), (Py_ssize_t)objects->known,
                         (long long)cpu_ns);
}

PyDoc_STRVAR(
    sample_doc,
    "sample()\n--\n\nOne sampling phase. Returns (objects sampled, nanoseconds of CPU time).");
static PyObject *sample(PyObject *object, PyObject *Py_UNUSED(none))
{
    struct objects_object *self = (struct objects_object *)object;
    if (!enter(self)) {
        return NULL;
    }
    size_t sampled;
    int64_t cpu_ns;
    Py_BEGIN_ALLOW_THREADS cpu_ns = thread_cpu_ns();
    sampled = objects_sample(&self->objects);
    cpu_ns = thread_cpu_ns() - cpu_ns;
    Py_END_ALLOW_THREADS self->busy = false;
    return Py_BuildValue("(nL)", (Py_ssize_t)sampled, (long long)cpu_ns);
}

PyDoc_STRVAR(report_doc,
             "report(weights)\n--\n\n"
             "The pages of this turn (addresses of 8 bytes each) and their hotness (4 bytes each, "
             "float), by the six weights of the linear model (median, deviation,\n"
             "nonzero, small, range, intercept).");
static PyObject *report(PyObject *object, PyObject *args)
{
    struct objects_object *self = (struct objects_object *)object;
    float weights[6];
    if (!PyArg_ParseTuple(args, "(ffffff):report", &weights[0], &weights[1], &weights[2],
                          &weights[3], &weights[4], &weights[5]) ||
        !enter(self)) {
        return NULL;
    }
    size_t room = objects_pages(&self->objects) + 1, pages;
    uint64_t *addresses = malloc(room * sizeof *addresses);
    float *hotness = malloc(room * sizeof *hotness);
    PyObject *result = NULL;
    if (addresses == NULL || hotness == NULL) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS pages = objects_report(&self->objects, weights, addresses, hotness);
        Py_END_ALLOW_THREADS result =
            Py_BuildValue("(y#y#)", (char *)addresses, (Py_ssize_t)(pages * sizeof *addresses),
                          (char *)hotness, (Py_ssize_t)(pages * sizeof *hotness));
    }
    free(addresses);
    free(hotness);
    self->busy = false;
    return result;
}

PyDoc_STRVAR(memory_doc, "memory_bytes()\n--\n\nThe memory of the pools and objects of this turn.");
static PyObject *memory_bytes(PyObject *object, PyObject *Py_UNUSED(none))
{
    const struct objects *objects = &((struct objects_object *)object)->objects;
    return PyLong_FromSize_t(objects->count * sizeof(struct object) +
                             objects->pools.room * sizeof(struct pool));
}

PyDoc_STRVAR(
    close_doc,
    "close()\n--\n\nEnds sampling and releases everything. Calling it again does nothing.");
static PyObject *close_(PyObject *object, PyObject *Py_UNUSED(none))
{
    struct objects_object *self = (struct objects_object *)object;
    /* A call that was under way at the fork continues in the parent only. */
    if (atomic_exchange(&self->busy, true) && self->fork_depth == fork_depth()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the sampler is in use by another thread: stop that first");
        return NULL;
    }
    release(self);
    self->busy = false;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(counters_doc, "counters(addresses, growth)\n--\n\n"
                           "The counters of objects at addresses of 8 bytes each (4 bytes each), "
                           "and which could be read (1 byte each). Never crashes: memory\n"
                           "that is unmapped is marked.");
static PyObject *counters(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer addresses;
    int growth;
    if (!PyArg_ParseTuple(args, "y*p:counters", &addresses, &growth)) {
        return NULL;
    }
    Py_ssize_t count = addresses.len / 8;
    PyObject *values = PyBytes_FromStringAndSize(NULL, count * 4);
    PyObject *readable = PyBytes_FromStringAndSize(NULL, count);
    if (values == NULL || readable == NULL) {
        Py_XDECREF(values);
        Py_XDECREF(readable);
        PyBuffer_Release(&addresses);
        return NULL;
    }
    const uint64_t *address = addresses.buf;
    char *value = PyBytes_AS_STRING(values), *could = PyBytes_AS_STRING(readable);
    Py_BEGIN_ALLOW_THREADS for (Py_ssize_t n = 0; n < count; n++)
    {
        uint64_t word = 0;
        could[n] = read_memory(address[n], &word, sizeof word);
        uint32_t counter = growth ? (uint32_t)(word >> 32) : (uint32_t)word;
        memcpy(value + n * 4, &counter, 4);
    }
    Py_END_ALLOW_THREADS PyBuffer_Release(&addresses);
    return Py_BuildValue("(NN)", values, readable);
}

static PyMethodDef functions[] = {
    {"counters", counters, METH_VARARGS, counters_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef methods[] = {
    {"collect", collect, METH_VARARGS, collect_doc},
    {"sample", sample, METH_NOARGS, sample_doc},
    {"report", report, METH_VARARGS, report_doc},
    {"memory_bytes", memory_bytes, METH_NOARGS, memory_doc},
    {"close", close_, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Objects(growth)\n--\n\nSamples counters of objects: the reference count, or EMT's "
                "growth counter."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "emt_reproduction._objects.Objects",
    .basicsize = sizeof(struct objects_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int add_sampler(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int added = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return added < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
