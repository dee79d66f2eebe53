/* Where the data of a buffer lies, and which of its pages can be moved alone. */
#include "common.h"
#include "uffd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* x86-64's huge page, and arm64's with pages of 4 KiB. */
#define HUGE_BYTES ((uintptr_t)2 << 20)

/* The lowest and the highest byte of an array, which may have negative strides. `strides` are in
 * bytes. */
struct extent {
    uintptr_t start, end;
};

static struct extent extent_of(uintptr_t at, int dimensions, const int64_t *shape,
                               const int64_t *strides, int64_t item_bytes)
{
    struct extent extent = {at, at};
    for (int n = 0; n < dimensions; n++) {
        if (shape[n] == 0) {
            return (struct extent){at, at};
        }
        int64_t reach = (shape[n] - 1) * strides[n];
        *(reach < 0 ? &extent.start : &extent.end) += (uintptr_t)reach;
    }
    extent.end += (uintptr_t)item_bytes;
    return extent;
}

static PyObject *range_of(struct extent extent)
{
    return Py_BuildValue("(KK)", (unsigned long long)extent.start, (unsigned long long)extent.end);
}

PyDoc_STRVAR(buffer_range_doc,
             "buffer_range(object, /)\n--\n\n"
             "The addresses of the first byte of an object's buffer and of the byte after the "
             "last.\n\nRaises:\n    TypeError: It has no buffer.\n    BufferError: Its items are "
             "behind pointers, or it does not export its buffer.");
static PyObject *buffer_range(PyObject *Py_UNUSED(module), PyObject *object)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) {
        return NULL;
    }
    bool direct = true;
    for (int n = 0; view.suboffsets != NULL && n < view.ndim; n++) {
        direct &= view.suboffsets[n] < 0;
    }
    _Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "64-bit sizes");
    struct extent extent = extent_of((uintptr_t)view.buf, view.ndim, (const int64_t *)view.shape,
                                     (const int64_t *)view.strides, (int64_t)view.itemsize);
    PyBuffer_Release(&view);
    if (!direct) {
        PyErr_SetString(PyExc_BufferError, "its items are behind pointers");
        return NULL;
    }
    return range_of(extent);
}

/* The capsule of the array API's __dlpack__: DLManagedTensor of dlpack.h 0.8, the layout of
 * which is fixed. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in items; NULL: rows are contiguous */
    uint64_t byte_offset;
};
/* kDLCPU; the others are memory of devices, or memory that a device has pinned. */
#define DL_CPU 1
/* More than NumPy and PyTorch allow. */
#define MAX_DIMENSIONS 64

PyDoc_STRVAR(dlpack_range_doc,
             "dlpack_range(capsule, /)\n--\n\n"
             "As buffer_range, of a capsule that __dlpack__ returned.\n\n"
             "Raises:\n    BufferError: Its memory is a device's, or pinned by one.");
static PyObject *dlpack_range(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const struct dl_tensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
    if (tensor == NULL) {
        return NULL;
    }
    if (tensor->device_type != DL_CPU || tensor->dimensions > MAX_DIMENSIONS) {
        return PyErr_Format(PyExc_BufferError, "its memory is of device type %d; allowed: 1, a CPU",
                            (int)tensor->device_type);
    }
    int64_t strides[MAX_DIMENSIONS], item = (tensor->bits * tensor->lanes + 7) / 8, row = item;
    for (int n = tensor->dimensions; n-- > 0;) {
        strides[n] = tensor->strides != NULL ? tensor->strides[n] * item : row;
        row *= tensor->shape[n];
    }
    return range_of(extent_of((uintptr_t)tensor->data + tensor->byte_offset, tensor->dimensions,
                              tensor->shape, strides, item));
}

/* True if an address is in a huge page that reaches beyond the range. */
static bool shares_huge(int pagemap, uintptr_t page, uintptr_t start, uintptr_t end)
{
    uintptr_t huge = page & ~(HUGE_BYTES - 1);
    return (huge < start || huge + HUGE_BYTES > end) && uffd_huge(pagemap, page);
}

PyDoc_STRVAR(own_pages_doc,
             "own_pages(start, end, /)\n--\n\n"
             "Addresses (8 bytes each) of the pages that are whole in a range, and are no part of "
             "a huge page that reaches beyond it.");
static PyObject *own_pages(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long from, to;
    if (!PyArg_ParseTuple(args, "KK:own_pages", &from, &to)) {
        return NULL;
    }
    uintptr_t start = ((uintptr_t)from + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1),
              end = (uintptr_t)to & ~(PAGE_BYTES - 1);
    size_t room = start < end ? (end - start) >> PAGE_SHIFT : 0, count = 0;
    uint64_t *pages = malloc((room + 1) * sizeof *pages);
    if (pages == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (uintptr_t page = start; page < end; page += PAGE_BYTES) {
        if (!shares_huge(pagemap, page, start, end)) {
            pages[count++] = page;
        }
    }
    if (pagemap >= 0) {
        close(pagemap);
    }
    Py_END_ALLOW_THREADS PyObject *result =
        PyBytes_FromStringAndSize((char *)pages, (Py_ssize_t)(count * sizeof *pages));
    free(pages);
    return result;
}

static PyMethodDef functions[] = {
    {"buffer_range", buffer_range, METH_O, buffer_range_doc},
    {"dlpack_range", dlpack_range, METH_O, dlpack_range_doc},
    {"own_pages", own_pages, METH_VARARGS, own_pages_doc},
    {NULL, NULL, 0, NULL},
};

int add_buffers(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
