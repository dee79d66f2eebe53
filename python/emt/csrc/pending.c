/* Calls that the main thread makes by itself, between two instructions of whatever it runs. */
#include "pending.h"

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

PyDoc_STRVAR(call_soon_doc, "call_soon(callable, /)\n--\n\nHave the main thread call it, soon; RuntimeError if too much is waiting already.");

static PyObject *call_soon(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_INCREF(callable);
    if (Py_AddPendingCall(call, callable) < 0) {
        Py_DECREF(callable);
        PyErr_SetString(PyExc_RuntimeError, "the interpreter has no place for another pending call");
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call_soon", call_soon, METH_O, call_soon_doc},
    {0},
};

int add_pending(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
