/* The extension: the functions that Python cannot provide, or not without the interpreter's
 * lock. */
#include "common.h"
#include "pending.h"

#include <errno.h>
#include <unistd.h>

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030f0000
#error "tierwise.emt knows the object layout of CPython 3.11 to 3.14"
#endif

static int refuse_elsewhere(void)
{
    if (sysconf(_SC_PAGESIZE) != (long)PAGE_BYTES) {
        PyErr_Format(PyExc_ImportError,
                     "tierwise.emt counts in pages of 4096 bytes; this kernel's have %ld",
                     sysconf(_SC_PAGESIZE));
        return -1;
    }
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "tierwise.emt tracks the whole process: use it in the "
                                           "main interpreter, not in a sub-interpreter");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(fork_depth_doc, "fork_depth()\n--\n\n"
                             "How many forks lie between this process and the one that loaded the "
                             "extension, also those that called no hook of Python's.");
static PyObject *forks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(fork_depth());
}

static PyMethodDef functions[] = {
    {"fork_depth", forks, METH_NOARGS, fork_depth_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    int error = watch_forks();
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (refuse_elsewhere() < 0 || add_table(module) < 0 || add_tracker(module) < 0 ||
        add_moves(module) < 0 || add_pending(module) < 0 || add_buffers(module) < 0 ||
        add_numpy_memory(module) < 0 || add_storage(module) < 0 || add_heaps(module) < 0 ||
        add_block(module) < 0 || add_recording(module) < 0 || add_copied(module) < 0) {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tierwise.emt._emt",
    .m_doc = "Tables of pages, trackers, samplers and moves; see the Python modules that use them.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__emt(void);
PyMODINIT_FUNC PyInit__emt(void)
{
    return PyModuleDef_Init(&definition);
}
