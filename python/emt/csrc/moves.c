/* move_pages(2) on this process. */
#include "common.h"
#include "moves.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int where_pages(unsigned long count, void **addresses, int *status)
{
    return (int)syscall(SYS_move_pages, 0, count, addresses, NULL, status, 0);
}

/* Moves pages, or only queries their nodes if `node` is below zero. Returns 4 bytes per page. */
static PyObject *call(Py_buffer *addresses, int node)
{
    unsigned long count = (unsigned long)addresses->len / 8;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(int)));
    int *nodes = malloc((count + 1) * sizeof *nodes);
    if (result == NULL || nodes == NULL) {
        free(nodes);
        Py_XDECREF(result);
        return PyErr_NoMemory();
    }
    int *status = (int *)(void *)PyBytes_AS_STRING(result);
    for (unsigned long n = 0; n < count; n++) {
        nodes[n] = node;
        /* The status of a page that the kernel did not reach. */
        status[n] = -EAGAIN;
    }
    long failed = 0;
    Py_BEGIN_ALLOW_THREADS if (count > 0)
    {
        failed = syscall(SYS_move_pages, 0, count, addresses->buf, node < 0 ? NULL : nodes, status,
                         MPOL_MF_MOVE);
    }
    Py_END_ALLOW_THREADS free(nodes);
    if (failed < 0) {
        Py_DECREF(result);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return result;
}

PyDoc_STRVAR(move_doc, "move_pages(addresses, node)\n--\n\n"
                       "Moves pages (addresses of 8 bytes) to a node; the node of each, or an "
                       "error number below zero (4 bytes).\n\n"
                       "Raises:\n    OSError: The kernel refused all of them: there is no such "
                       "node, or the call is forbidden.");
static PyObject *move_pages(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer addresses;
    int node;
    if (!PyArg_ParseTuple(args, "y*i:move_pages", &addresses, &node)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (node < 0) {
        PyErr_Format(PyExc_ValueError, "node %d; allowed: 0 or more", node);
    } else {
        result = call(&addresses, node);
    }
    PyBuffer_Release(&addresses);
    return result;
}

PyDoc_STRVAR(
    nodes_doc,
    "page_nodes(addresses)\n--\n\n"
    "The node of each page (addresses of 8 bytes), or an error number below zero (4 bytes).");
static PyObject *page_nodes(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer addresses;
    if (!PyArg_ParseTuple(args, "y*:page_nodes", &addresses)) {
        return NULL;
    }
    PyObject *result = call(&addresses, -1);
    PyBuffer_Release(&addresses);
    return result;
}

static PyMethodDef functions[] = {
    {"move_pages", move_pages, METH_VARARGS, move_doc},
    {"page_nodes", page_nodes, METH_VARARGS, nodes_doc},
    {NULL, NULL, 0, NULL},
};

int add_moves(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
