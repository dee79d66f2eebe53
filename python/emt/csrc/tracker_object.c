/* A tracker as a Python object: `Tracker`. */
#include "table_object.h"
#include "tracker.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct tracker_object {
    PyObject_HEAD struct tracker tracker;
    bool open;
    atomic_bool busy; /* a sample is under way, in another thread */
};

static const struct uffd_way *const ways[] = {&uffd_wp, &uffd_rwp};

static const struct uffd_way *way_of(const char *name)
{
    for (size_t n = 0; n < sizeof ways / sizeof *ways; n++) {
        if (strcmp(ways[n]->name, name) == 0) {
            return ways[n];
        }
    }
    PyErr_Format(PyExc_ValueError, "signal %s; a tracker knows: uffd-wp, uffd-rwp", name);
    return NULL;
}

/* Sets an OSError whose text names the step that failed, and its meaning. */
static PyObject *refuse(int error, const struct uffd_way *way, const char *step)
{
    const char *why = "the system refused";
    if (strcmp(step, "userfaultfd") == 0) {
        why = error == EPERM || error == EACCES
                  ? "userfaultfd is forbidden here (seccomp or a security module)"
              : error == ENOSYS
                  ? "the kernel has no userfaultfd (CONFIG_USERFAULTFD), or seccomp hides it"
                  : why;
    } else if (strcmp(step, "UFFDIO_API") == 0 || strcmp(step, "PAGEMAP_SCAN") == 0) {
        why = "the kernel does not offer it";
    } else if (strcmp(step, "calibration") == 0) {
        why = "memory of this process cannot be protected";
    }
    PyObject *text = PyUnicode_FromFormat("%s: %s: %s: %s; it needs Linux %s or later", way->name,
                                          step, strerror(error), why, way->since);
    PyObject *args = text == NULL ? NULL : Py_BuildValue("(iN)", error, text);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
    }
    return NULL;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"signal", NULL};
    const char *name, *step;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s:Tracker", names, &name)) {
        return NULL;
    }
    const struct uffd_way *way = way_of(name);
    struct tracker_object *self =
        way == NULL ? NULL : (struct tracker_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    int error;
    Py_BEGIN_ALLOW_THREADS error = uffd_open(&self->tracker.uffd, way, &step);
    if (error == 0) {
        self->open = true;
        step = "calibration";
        self->tracker.fault_ns = uffd_fault_ns(&self->tracker.uffd);
        error = self->tracker.fault_ns < 0 ? (int)-self->tracker.fault_ns : 0;
    }
    Py_END_ALLOW_THREADS if (error != 0)
    {
        Py_DECREF(self);
        return refuse(error, way, step);
    }
    return (PyObject *)self;
}

static void release(struct tracker_object *self)
{
    if (self->open) {
        self->open = false;
        tracker_release(&self->tracker);
    }
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    release((struct tracker_object *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

static bool check(const struct sampling *asked)
{
    if (asked->interval_ns <= 0 || asked->window_ns <= 0 || asked->window_ns > asked->interval_ns ||
        !(asked->k > 0 && asked->k <= 1)) {
        PyErr_SetString(PyExc_ValueError, "allowed: interval_ns and window_ns above 0, the window "
                                          "at most the interval, 0 < k <= 1");
        return false;
    }
    return true;
}

/* Begins a sample: false with an exception set if there can be none. Its end clears `busy`. */
static bool begin(struct tracker_object *self)
{
    if (atomic_exchange(&self->busy, true)) {
        PyErr_SetString(PyExc_RuntimeError, "a sample is under way in another thread");
        return false;
    }
    if (!self->open || !uffd_own(&self->tracker.uffd)) {
        self->busy = false;
        PyErr_SetString(PyExc_RuntimeError,
                        self->open ? "the tracker is of the parent process; make one here"
                                   : "the tracker is closed");
        return false;
    }
    if (!uffd_kept(&self->tracker.uffd)) {
        self->busy = false;
        PyErr_SetString(PyExc_RuntimeError, "the program closed the descriptors of its tracking; "
                                            "os.closerange closes those of others too");
        return false;
    }
    return true;
}

PyDoc_STRVAR(sample_doc,
             "sample(table, interval_ns, window_ns, pages, k, stop)\n--\n\n"
             "Samples for an interval into the table; `pages` are protected in each window. "
             "`stop` is a descriptor that ends it when it\n"
             "becomes readable. Returns (tested, touched, faults, rounds, cpu_ns, wall_ns).\n\n"
             "Raises:\n    OSError: The program's memory cannot be listed.\n    RuntimeError: It "
             "is closed, of the parent process, or a sample is under way.");
static PyObject *sample(PyObject *object, PyObject *args)
{
    struct tracker_object *self = (struct tracker_object *)object;
    PyObject *table_argument;
    struct sampling asked;
    struct sampled did;
    long long interval_ns, window_ns;
    Py_ssize_t pages;
    if (!PyArg_ParseTuple(args, "OLLnfi:sample", &table_argument, &interval_ns, &window_ns, &pages,
                          &asked.k, &asked.stop)) {
        return NULL;
    }
    asked.interval_ns = interval_ns;
    asked.window_ns = window_ns;
    asked.pages = pages > 0 ? (size_t)pages : 0;
    struct table *table = table_of(table_argument);
    if (table == NULL || !check(&asked)) {
        return NULL;
    }
    if (!begin(self)) {
        return NULL;
    }
    int error;
    Py_BEGIN_ALLOW_THREADS error = tracker_sample(&self->tracker, table, &asked, &did);
    Py_END_ALLOW_THREADS self->busy = false;
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, "/proc/self/maps");
    }
    return Py_BuildValue("(nnnnLL)", (Py_ssize_t)did.tested, (Py_ssize_t)did.touched,
                         (Py_ssize_t)did.faults, (Py_ssize_t)did.rounds, (long long)did.cpu_ns,
                         (long long)did.wall_ns);
}

PyDoc_STRVAR(touched_doc,
             "touched(table, addresses, window_ns, stop)\n--\n\n"
             "Tells which pages are touched within a window: 1 or 0 for each, or nothing if it was "
             "ended by `stop`, as of `sample`.\n\n"
             "Raises:\n    RuntimeError: As of `sample`.");
static PyObject *touched(PyObject *object, PyObject *args)
{
    struct tracker_object *self = (struct tracker_object *)object;
    PyObject *table_argument;
    Py_buffer pages;
    long long window_ns;
    int stop;
    if (!PyArg_ParseTuple(args, "Oy*Li:touched", &table_argument, &pages, &window_ns, &stop)) {
        return NULL;
    }
    struct table *table = table_of(table_argument);
    size_t count = (size_t)pages.len / sizeof(uint64_t);
    PyObject *result = table == NULL ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count);
    if (result != NULL && !begin(self)) {
        Py_CLEAR(result);
    }
    if (result != NULL) {
        int error;
        uint8_t *out = (uint8_t *)PyBytes_AS_STRING(result);
        Py_BEGIN_ALLOW_THREADS error =
            tracker_touched(&self->tracker, table, pages.buf, count, window_ns, stop, out);
        Py_END_ALLOW_THREADS self->busy = false;
        if (error != 0) {
            Py_SETREF(result, PyBytes_FromStringAndSize(NULL, 0));
        }
    }
    PyBuffer_Release(&pages);
    return result;
}

PyDoc_STRVAR(close_doc, "close()\n--\n\nRemoves all protection. Calling it again does nothing.");
static PyObject *close_(PyObject *object, PyObject *Py_UNUSED(none))
{
    struct tracker_object *self = (struct tracker_object *)object;
    /* A sample that was under way at the fork continues in the parent only. */
    if (atomic_exchange(&self->busy, true) && uffd_own(&self->tracker.uffd)) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a sample is under way in another thread: stop it first");
        return NULL;
    }
    release(self);
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *fault_ns(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((struct tracker_object *)object)->tracker.fault_ns);
}

static PyMethodDef methods[] = {
    {"sample", sample, METH_VARARGS, sample_doc},
    {"touched", touched, METH_VARARGS, touched_doc},
    {"close", close_, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"fault_ns", fault_ns, NULL,
     "Nanoseconds that the first touch of a protected page costs, calibrated at creation.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, "Tracker(signal)\n--\n\nFinds touched pages by \"uffd-wp\" or \"uffd-rwp\"."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tierwise.emt._emt.Tracker",
    .basicsize = sizeof(struct tracker_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int add_tracker(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int added = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return added;
}
