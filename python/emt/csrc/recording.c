#include "recording.h"

#include "heaps.h"
#include "hooks.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

bool recording;
uint64_t recorded_blocks;

/* Blocks of a measurement, some ten microseconds, and its rounds, of which the shortest counts:
 * other programs only add to it. */
#define MEASURED_BLOCKS 1000
#define MEASURED_ROUNDS 16
/* Bytes of a measured block; most objects have less than twice as many. */
#define MEASURED_BYTES 64

/* By the number of the site. Number 0 is for unknown sites. */
static struct bins **site_bins;
static uint32_t site_room;

struct bins *recording_bins(uint32_t site)
{
    if (site >= site_room) {
        uint32_t room = site_room ? site_room * 2 : 1024;
        struct bins **all = realloc(site_bins, room * sizeof *all);
        if (all == NULL) {
            return site_bins != NULL ? site_bins[0] : NULL;
        }
        memset(all + site_room, 0, (room - site_room) * sizeof *all);
        site_bins = all;
        site_room = room;
    }
    if (site_bins[site] == NULL) {
        struct bins *bins = malloc(sizeof *bins);
        if (bins == NULL) {
            return site_bins[0];
        }
        bins_init(bins, &heaps.regions[0], site);
        site_bins[site] = bins;
    }
    return site_bins[site];
}

bool recording_start(void)
{
    recording = recording_bins(NO_SITE) != NULL;
    return recording;
}

PyDoc_STRVAR(sites_of_doc, "sites_of(addresses, /)\n--\n\n"
                           "The numbers (4 bytes each) of the sites whose blocks are on pages, in "
                           "a recording; 0 is none.");
static PyObject *sites_of(PyObject *Py_UNUSED(module), PyObject *addresses)
{
    Py_buffer view;
    if (PyObject_GetBuffer(addresses, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t count = view.len / (Py_ssize_t)sizeof(uint64_t);
    PyObject *result = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint32_t));
    for (Py_ssize_t n = 0; result != NULL && n < count; n++) {
        uint64_t address;
        memcpy(&address, (const char *)view.buf + n * 8, sizeof address);
        const void *at = (const void *)(uintptr_t)address;
        uint32_t owner = recording && heaps_have(at) ? region_owner(heaps_region(at), at) : NO_UNIT;
        uint32_t site = owner == NO_UNIT ? NO_SITE : owner;
        memcpy(PyBytes_AS_STRING(result) + n * 4, &site, sizeof site);
    }
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(site_bytes_doc, "site_bytes()\n--\n\n"
                             "The bytes (8 bytes each) of the blocks that each site of a recording "
                             "has in use now, by its number.");
static PyObject *site_bytes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    size_t count = (size_t)sites_count() + 1;
    uint64_t *bytes = calloc(count, sizeof *bytes);
    if (bytes == NULL) {
        return PyErr_NoMemory();
    }
    if (recording) {
        region_used_by(&heaps.regions[0], bytes, count);
    }
    PyObject *result =
        PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)(count * sizeof *bytes));
    free(bytes);
    return result;
}

PyDoc_STRVAR(sites_doc, "sites()\n--\n\n"
                        "The sites of a recording by number, from 1 on: (file, function, line).");
static PyObject *sites(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return sites_list();
}

/* Nanoseconds in which an allocator gives and takes back the measured blocks. */
static int64_t measured_ns(const PyMemAllocatorEx *allocator)
{
    int64_t least = INT64_MAX;
    for (int round = 0; round < MEASURED_ROUNDS; round++) {
        int64_t began = monotonic_ns();
        for (int n = 0; n < MEASURED_BLOCKS; n++) {
            allocator->free(allocator->ctx, allocator->malloc(allocator->ctx, MEASURED_BYTES));
        }
        int64_t took = monotonic_ns() - began;
        least = took < least ? took : least;
    }
    return least;
}

PyDoc_STRVAR(hooks_cost_doc, "hooks_cost()\n--\n\n"
                             "The number of blocks that a recording has seen, and the nanoseconds "
                             "that a block's line and its place in a heap cost on this machine.");
static PyObject *hooks_cost(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    unsigned long long blocks = recorded_blocks;
    PyMemAllocatorEx now;
    PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
    int64_t more = measured_ns(&now) - measured_ns(&original[OBJ]);
    return Py_BuildValue("(Kd)", blocks, (double)(more > 0 ? more : 0) / MEASURED_BLOCKS);
}

static PyMethodDef functions[] = {
    {"hooks_cost", hooks_cost, METH_NOARGS, hooks_cost_doc},
    {"sites_of", sites_of, METH_O, sites_of_doc},
    {"site_bytes", site_bytes, METH_NOARGS, site_bytes_doc},
    {"sites", sites, METH_NOARGS, sites_doc},
    {NULL, NULL, 0, NULL},
};

int add_recording(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
