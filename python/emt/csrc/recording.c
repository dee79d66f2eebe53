#include "recording.h"

#include "heaps.h"
#include "sites.h"

#include <stdlib.h>
#include <string.h>

bool recording;

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

PyDoc_STRVAR(site_pages_doc, "site_pages()\n--\n\n"
                             "The pages (4 bytes each) that each site of a recording has now, by "
                             "its number.");
static PyObject *site_pages(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t count = (Py_ssize_t)sites_count() + 1;
    uint32_t *pages = calloc((size_t)count, sizeof *pages);
    if (pages == NULL) {
        return PyErr_NoMemory();
    }
    for (uint32_t unit = 0; recording && unit < heaps.regions[0].top; unit++) {
        uintptr_t page = heaps.regions[0].base + ((uintptr_t)unit << PAGE_SHIFT);
        uint32_t owner = region_owner(&heaps.regions[0], (const void *)page);
        if (owner < count) {
            pages[owner]++;
        }
    }
    PyObject *result =
        PyBytes_FromStringAndSize((const char *)pages, count * (Py_ssize_t)sizeof *pages);
    free(pages);
    return result;
}

PyDoc_STRVAR(sites_doc, "sites()\n--\n\n"
                        "The sites of a recording by number, from 1 on: (file, function, line).");
static PyObject *sites(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return sites_list();
}

static PyMethodDef functions[] = {
    {"sites_of", sites_of, METH_O, sites_of_doc},
    {"site_pages", site_pages, METH_NOARGS, site_pages_doc},
    {"sites", sites, METH_NOARGS, sites_doc},
    {NULL, NULL, 0, NULL},
};

int add_recording(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
