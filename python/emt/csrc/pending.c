/* A call that runs after os.fork has returned: hooks after the fork run before that. */
#include "pending.h"

#include <unistd.h>

/* The pending call, and the number of Python frames when os.fork called its hooks. */
struct pending {
    PyObject *callable;
    size_t depth;
};

static size_t depth_of_python(void)
{
    size_t depth = 0;
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame != NULL) {
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
        depth++;
    }
    return depth;
}

static int call(void *what)
{
    struct pending *pending = what;
    /* A later hook in Python runs pending calls at its first instruction. os.fork has not returned
     * then, so the call is deferred again. */
    if (depth_of_python() > pending->depth && Py_AddPendingCall(call, pending) == 0) {
        return 0;
    }
    PyObject *result = PyObject_CallNoArgs(pending->callable);
    Py_DECREF(pending->callable);
    PyMem_RawFree(pending);
    if (result == NULL) {
        /* The main thread may run unrelated code then. */
        PyErr_WriteUnraisable(NULL);
        return 0;
    }
    Py_DECREF(result);
    return 0;
}

PyDoc_STRVAR(call_after_fork_doc,
             "call_after_fork(callable, /)\n--\n\n"
             "Have the main thread call it before the next instruction of whoever called os.fork. "
             "In another thread, whose process has threads in any case: call it now.");

static PyObject *call_after_fork(PyObject *module, PyObject *callable)
{
    (void)module;
    if (gettid() != getpid()) {
        return PyObject_CallNoArgs(callable);
    }
    struct pending *pending = PyMem_RawMalloc(sizeof(*pending));
    if (pending == NULL) {
        return PyErr_NoMemory();
    }
    *pending = (struct pending){Py_NewRef(callable), depth_of_python()};
    if (Py_AddPendingCall(call, pending) < 0) {
        Py_DECREF(callable);
        PyMem_RawFree(pending);
        PyErr_SetString(PyExc_RuntimeError,
                        "the interpreter has no place for another pending call");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call_after_fork", call_after_fork, METH_O, call_after_fork_doc},
    {0},
};

int add_pending(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
