/* A call that is made when os.fork has returned: a hook after the fork runs before that. */
#include "pending.h"

#include <unistd.h>

static int call(void *callable)
{
    PyObject *result = PyObject_CallNoArgs(callable);
    Py_DECREF((PyObject *)callable);
    if (result == NULL) {
        /* Whatever the main thread happens to run has nothing to do with it. */
        PyErr_WriteUnraisable(NULL);
        return 0;
    }
    Py_DECREF(result);
    return 0;
}

PyDoc_STRVAR(call_after_fork_doc,
             "call_after_fork(callable, /)\n--\n\n"
             "Have the main thread call it before its next instruction. In another thread, whose process has threads in any case: call it now.");

static PyObject *call_after_fork(PyObject *module, PyObject *callable)
{
    (void)module;
    if (gettid() != getpid()) {
        return PyObject_CallNoArgs(callable);
    }
    Py_INCREF(callable);
    if (Py_AddPendingCall(call, callable) < 0) {
        Py_DECREF(callable);
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no place for another pending call");
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
