/* Copies of objects without parts, for `rebuilt`: they are allocated where the thread's block
 * asks. */
#include "common.h"

PyDoc_STRVAR(copied_doc, "copied(leaf, /)\n--\n\n"
                         "A new object that equals a str, bytes, int, float or complex; or the "
                         "same, if the interpreter has only one of it.");
static PyObject *copied(PyObject *Py_UNUSED(module), PyObject *leaf)
{
    if (PyUnicode_CheckExact(leaf)) {
        /* Names are found by the identity of their string. */
        if (PyUnicode_CHECK_INTERNED(leaf)) {
            return Py_NewRef(leaf);
        }
        return PyUnicode_FromKindAndData((int)PyUnicode_KIND(leaf), PyUnicode_DATA(leaf),
                                         PyUnicode_GET_LENGTH(leaf));
    }
    if (PyBytes_CheckExact(leaf)) {
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(leaf), PyBytes_GET_SIZE(leaf));
    }
    if (PyFloat_CheckExact(leaf)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(leaf));
    }
    if (PyComplex_CheckExact(leaf)) {
        return PyComplex_FromCComplex(PyComplex_AsCComplex(leaf));
    }
    if (PyLong_CheckExact(leaf)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(leaf, &overflow);
        if (overflow == 0) {
            return PyLong_FromLongLong(number);
        }
        PyObject *negative = PyNumber_Negative(leaf);
        PyObject *copy = negative != NULL ? PyNumber_Negative(negative) : NULL;
        Py_XDECREF(negative);
        return copy;
    }
    return Py_NewRef(leaf);
}

static PyMethodDef functions[] = {
    {"copied", copied, METH_O, copied_doc},
    {NULL, NULL, 0, NULL},
};

int add_copied(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
