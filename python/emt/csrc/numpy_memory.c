/* Memory for NumPy's arrays on chosen nodes, by the handler of NEP 49.
 *
 * The structures and the places in NumPy's table of functions are its ABI (numpy/ndarraytypes.h,
 * __multiarray_api.h). They are repeated here, because the extension is built without NumPy. */
#include "common.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Prefers several nodes, and uses others when they are full; Linux 5.15. */
#define EMT_MPOL_PREFERRED_MANY 5

struct numpy_allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *data, size_t size);
    void (*free)(void *context, void *data, size_t size);
};
struct numpy_handler {
    char name[127];
    uint8_t version;
    struct numpy_allocator allocator;
};
/* Index of PyDataMem_SetHandler. */
#define SET_HANDLER 304

/* NumPy advises huge pages for arrays of this size. */
#define HUGE_FROM_BYTES ((size_t)4 << 20)

struct placed {
    struct numpy_handler handler;
    uint64_t nodes;
    size_t at_least; /* bytes of an array that gets pages of its own */
};

/* Before an array's data: the bytes of its mapping, or 0 if the C library has it. It keeps the data
 * at a multiple of a cache line. */
struct header {
    size_t mapped, size;
    char pad[48];
};
_Static_assert(sizeof(struct header) == 64, "a cache line");

static size_t mapped_bytes(size_t size)
{
    /* The data starts on a page of its own, behind the page with the header. */
    return (size + 2 * PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static struct header *header_of(void *data)
{
    return (struct header *)data - 1;
}

static int bind_to(void *memory, size_t bytes, uint64_t nodes)
{
    unsigned long mask = nodes;
    return (int)syscall(SYS_mbind, memory, bytes, EMT_MPOL_PREFERRED_MANY, &mask,
                        8 * sizeof mask + 1, 0);
}

static void *map(const struct placed *placed, size_t size)
{
    size_t bytes = mapped_bytes(size);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (size >= HUGE_FROM_BYTES) {
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    /* The policy was tried when the handler was made. Without it the memory is usable too. */
    bind_to(memory, bytes, placed->nodes);
    void *data = memory + PAGE_BYTES;
    *header_of(data) = (struct header){.mapped = bytes, .size = size};
    return data;
}

static void *take(void *context, size_t size, bool zero)
{
    const struct placed *placed = context;
    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    if (size >= placed->at_least) {
        return map(placed, size);
    }
    struct header *header = zero ? calloc(1, sizeof *header + size) : malloc(sizeof *header + size);
    if (header == NULL) {
        return NULL;
    }
    *header = (struct header){.size = size};
    return header + 1;
}

static void *numpy_malloc(void *context, size_t size)
{
    return take(context, size, false);
}

static void *numpy_calloc(void *context, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : take(context, bytes, true);
}

static void numpy_free(void *Py_UNUSED(context), void *data, size_t Py_UNUSED(size))
{
    if (data == NULL) {
        return;
    }
    struct header *header = header_of(data);
    if (header->mapped > 0) {
        munmap((char *)data - PAGE_BYTES, header->mapped);
    } else {
        free(header);
    }
}

static void *numpy_realloc(void *context, void *data, size_t size)
{
    void *moved = take(context, size, false);
    if (moved != NULL && data != NULL) {
        size_t before = header_of(data)->size;
        memcpy(moved, data, before < size ? before : size);
        numpy_free(context, data, before);
    }
    return moved;
}

static void release(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, "mem_handler"));
}

PyDoc_STRVAR(handler_doc,
             "numpy_handler(nodes, at_least)\n--\n\n"
             "A handler of NEP 49: arrays of at_least bytes and more have pages of their own "
             "on nodes, a mask. NumPy keeps it as long as one of its\narrays.\n\n"
             "Raises:\n    OSError: The kernel refuses the policy.");
static PyObject *numpy_handler(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long nodes;
    Py_ssize_t at_least;
    if (!PyArg_ParseTuple(args, "Kn:numpy_handler", &nodes, &at_least)) {
        return NULL;
    }
    void *tried =
        mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (tried == MAP_FAILED || bind_to(tried, PAGE_BYTES, nodes) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        if (tried != MAP_FAILED) {
            munmap(tried, PAGE_BYTES);
        }
        return NULL;
    }
    munmap(tried, PAGE_BYTES);
    struct placed *placed = calloc(1, sizeof *placed);
    if (placed == NULL) {
        return PyErr_NoMemory();
    }
    *placed = (struct placed){
        .handler = {.name = "tierwise.emt",
                    .version = 1,
                    .allocator = {placed, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free}},
        .nodes = nodes,
        .at_least = at_least > 0 ? (size_t)at_least : 0,
    };
    PyObject *capsule = PyCapsule_New(placed, "mem_handler", release);
    if (capsule == NULL) {
        free(placed);
    }
    return capsule;
}

PyDoc_STRVAR(set_handler_doc,
             "numpy_set_handler(api, handler)\n--\n\n"
             "Has NumPy allocate by a handler, in this context; `api` is its capsule _ARRAY_API. "
             "Returns the handler before.");
static PyObject *numpy_set_handler(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *api, *handler;
    if (!PyArg_ParseTuple(args, "OO:numpy_set_handler", &api, &handler)) {
        return NULL;
    }
    if (!PyCapsule_IsValid(handler, "mem_handler")) {
        return PyErr_Format(PyExc_TypeError, "handler is a %s; allowed: a handler of NEP 49",
                            Py_TYPE(handler)->tp_name);
    }
    void **functions = PyCapsule_GetPointer(api, NULL);
    if (functions == NULL) {
        return NULL;
    }
    PyObject *(*set)(PyObject *) = (PyObject * (*)(PyObject *)) functions[SET_HANDLER];
    return set(handler);
}

static PyMethodDef methods[] = {
    {"numpy_handler", numpy_handler, METH_VARARGS, handler_doc},
    {"numpy_set_handler", numpy_set_handler, METH_VARARGS, set_handler_doc},
    {NULL, NULL, 0, NULL},
};

int add_numpy_memory(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
