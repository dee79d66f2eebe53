/* The reproduction's extension: objects and their counters. */
#include "module.h"

#include <errno.h>

static int execute(PyObject *module)
{
    int error = watch_forks();
    if (error != 0) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (add_sampler(module) < 0 || add_marking(module) < 0) {
        return -1;
    }
#ifdef PY_GROWTH_BUILD_ID
    return PyModule_AddIntConstant(module, "GROWTH_BUILD_ID", PY_GROWTH_BUILD_ID);
#else
    return PyModule_AddIntConstant(module, "GROWTH_BUILD_ID", 0);
#endif
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
    .m_name = "emt_reproduction._objects",
    .m_doc = "Finds objects by pools or by marking, and samples their counters.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__objects(void);
PyMODINIT_FUNC PyInit__objects(void)
{
    return PyModuleDef_Init(&definition);
}
