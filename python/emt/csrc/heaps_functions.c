/* The functions of the heaps that Python calls. */
#include "heaps.h"
#include "hooking.h"
#include "lend.h"
#include "recording.h"
#include "sites.h"
#include "wanted.h"

#include <errno.h>
#include <unistd.h>

static size_t memory_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * PAGE_BYTES;
}

PyDoc_STRVAR(heaps_start_doc,
             "heaps_start(cold_nodes, hot_nodes, sites, kept, /)\n--\n\n"
             "Hooks the allocators, once in a process. The masks are of the nodes on which each "
             "heap's memory is preferred; 0 is no preference. `sites` is None, or a dict of (file, "
             "line): 1 for the cold heap, 2 for the hot one; or True, which gives each site pages "
             "of its own. The cold heap borrows fast memory beyond `kept` free bytes.\n\n"
             "Raises:\n    OSError: There are no addresses for the heaps, or the kernel refuses "
             "the policy.\n    RuntimeError: They are there already.");
static PyObject *heaps_begin(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long cold, hot, kept;
    PyObject *sites;
    if (!PyArg_ParseTuple(args, "KKOK:heaps_start", &cold, &hot, &sites, &kept)) {
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_RuntimeError, "a free-threaded interpreter finds its objects in its own "
                                        "allocator's heaps, and allows no others");
    return NULL;
#endif
    if (heaps.bytes > 0) {
        PyErr_SetString(PyExc_RuntimeError, "the heaps are there already");
        return NULL;
    }
    if (!hooks_possible()) {
        PyErr_SetString(PyExc_RuntimeError, "another tool has hooked the interpreter's allocators");
        return NULL;
    }
    bool fine = sites == Py_True;
    int error = heaps_reserve(2 * memory_bytes(), fine);
    if (error == 0 && cold != 0 && hot != 0) {
        error = heaps_bind(cold, hot, kept);
    }
    if (error != 0) {
        /* The addresses stay reserved; they have no memory. */
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if ((fine || PyDict_Check(sites)) && sites_start() < 0) {
        return NULL;
    }
    if (fine && !recording_start()) {
        return PyErr_NoMemory();
    }
    if (PyDict_Check(sites) && sites_known(sites) < 0) {
        return NULL;
    }
    if (fine || PyDict_Check(sites)) {
        sites_ask();
    }
    hooks_start();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(heap_of_doc, "heap_of(object, /)\n--\n\n"
                          "0 if no heap has the object, 1 the cold one, 2 the hot one.");
static PyObject *heap_of(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyLong_FromLong(heaps_have(object) ? 1 + (heaps_region(object) - heaps.regions) : 0);
}

PyDoc_STRVAR(heap_ranges_doc, "heap_ranges()\n--\n\n"
                              "Per heap, cold first: its start, the end of what was ever in use, "
                              "the bytes of its blocks in use, the end of its addresses, and of "
                              "those that prefer the fast nodes.");
static PyObject *heap_ranges(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *list = PyList_New(0);
    for (int n = 0; list != NULL && n < HEAPS && heaps.bytes > 0; n++) {
        const struct region *region = &heaps.regions[n];
        PyObject *range = Py_BuildValue(
            "(KKKKK)", (unsigned long long)region->base,
            (unsigned long long)region->base + ((uint64_t)region->top << PAGE_SHIFT),
            (unsigned long long)region->used,
            (unsigned long long)region->base + ((uint64_t)region->limit << PAGE_SHIFT),
            (unsigned long long)heaps_fast_end(n));
        if (range == NULL || PyList_Append(list, range) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(range);
    }
    return list;
}

PyDoc_STRVAR(
    heaps_follow_doc,
    "heaps_follow(wanted, room, /)\n--\n\n"
    "Has the cold heap borrow fast memory, or make way for `wanted` bytes. The process may "
    "take at most `room` bytes more of fast memory; negative: nothing limits it. Returns "
    "the end of the addresses that prefer the fast nodes; 0 without nodes.");
static PyObject *heaps_follow(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t wanted;
    long long room;
    if (!PyArg_ParseTuple(args, "nL:heaps_follow", &wanted, &room)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS lend_follow(wanted > 0 ? (size_t)wanted : 0, room);
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLongLong(lent_until());
}

PyDoc_STRVAR(heaps_swap_doc, "heaps_swap()\n--\n\n"
                             "Binds the heap that was on the slow nodes to the fast ones, and the "
                             "other to the slow ones, with their pages.");
static PyObject *heaps_swap(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int error;
    Py_BEGIN_ALLOW_THREADS error = heaps_exchange();
    Py_END_ALLOW_THREADS if (error != 0)
    {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"heaps_start", heaps_begin, METH_VARARGS, heaps_start_doc},
    {"heap_of", heap_of, METH_O, heap_of_doc},
    {"heap_ranges", heap_ranges, METH_NOARGS, heap_ranges_doc},
    {"heaps_follow", heaps_follow, METH_VARARGS, heaps_follow_doc},
    {"heaps_swap", heaps_swap, METH_NOARGS, heaps_swap_doc},
    {NULL, NULL, 0, NULL},
};

int add_heaps(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
