/* Where containers keep their items, which is in a block of its own. */
#include "common.h"

PyDoc_STRVAR(storage_doc,
             "storage(object, /)\n--\n\n"
             "The address of the block with the items of a list, a set or a dict, and its bytes; 0 "
             "bytes of a dict, of which sys.getsizeof has them. (0, 0)\n"
             "of another object, and of a container with its items in itself.");
static PyObject *storage(PyObject *Py_UNUSED(module), PyObject *object)
{
    const void *at = NULL;
    size_t bytes = 0;
    if (PyList_CheckExact(object)) {
        at = ((PyListObject *)object)->ob_item;
        bytes = (size_t)((PyListObject *)object)->allocated * sizeof(PyObject *);
    } else if (PyAnySet_CheckExact(object)) {
        const PySetObject *set = (PySetObject *)object;
        at = set->table != set->smalltable ? set->table : NULL;
        bytes = at == NULL ? 0 : ((size_t)set->mask + 1) * sizeof(setentry);
    } else if (PyDict_CheckExact(object)) {
        at = ((PyDictObject *)object)->ma_keys;
    }
    return Py_BuildValue("(KK)", (unsigned long long)(uintptr_t)at, (unsigned long long)bytes);
}

static PyMethodDef functions[] = {
    {"storage", storage, METH_O, storage_doc},
    {NULL, NULL, 0, NULL},
};

int add_storage(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
