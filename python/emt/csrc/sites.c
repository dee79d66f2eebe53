/* The frames are internal to CPython; 3.11 to 3.14 differ in three places. */
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include "sites.h"

#include <stdlib.h>
#include <string.h>

#ifndef Py_GIL_DISABLED
/* CPython's own flags do not have this warning, and 3.14's headers do not keep to it. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal/pycore_frame.h"
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe.h"
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include "internal/pycore_code.h"
#endif
#pragma GCC diagnostic pop

/* What is known of a code object. It is not kept alive: another one at the same address has another
 * file name or first line, or else its sites are wrong, which costs only speed. */
struct code_sites {
    PyCodeObject *code;
    PyObject *file;
    int first_line;
    uint32_t instructions;
    uint32_t *sites; /* by instruction; NULL: none of its lines is known */
};

/* Open addressing, at most half full. */
static struct code_sites *table;
static uint32_t table_size, table_used;

struct line {
    PyCodeObject *code; /* held */
    int line;
};
/* By number, if each line gets one. */
static struct line *lines;
static uint32_t lines_used, lines_room;
/* Sites of one run. A program has some thousand lines that allocate; more are NO_SITE. */
#define MAX_SITES (1u << 16)

/* (file name, line): number. NULL: each line gets a new one. */
static PyObject *known;
/* File names that `known` has, so that most code is left alone after one comparison per name. */
static PyObject *known_files;

static uint32_t slot_of(const PyCodeObject *code)
{
    return (uint32_t)(((uintptr_t)code >> 4) * 0x9e3779b97f4a7c15ull >> 32) & (table_size - 1);
}

static bool grow(void)
{
    uint32_t size = table_size ? table_size * 2 : 4096, before = table_size;
    struct code_sites *all = calloc(size, sizeof *all), *old = table;
    if (all == NULL) {
        return false;
    }
    table = all;
    table_size = size;
    for (uint32_t n = 0; n < before; n++) {
        if (old[n].code != NULL) {
            uint32_t slot = slot_of(old[n].code);
            while (table[slot].code != NULL) {
                slot = (slot + 1) & (table_size - 1);
            }
            table[slot] = old[n];
        }
    }
    free(old);
    return true;
}

static bool file_is_known(PyObject *file)
{
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(known_files); n++) {
        PyObject *name = PyList_GET_ITEM(known_files, n);
        if (name == file || (PyUnicode_GET_LENGTH(name) == PyUnicode_GET_LENGTH(file) &&
                             PyUnicode_Compare(name, file) == 0)) {
            return true;
        }
    }
    return false;
}

/* The number of a line in `known`; its items are few, and each line of a function is looked up
 * once. */
static uint32_t number_of(PyObject *file, int line)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(known, &at, &key, &value);) {
        if (PyLong_AsLong(PyTuple_GET_ITEM(key, 1)) == line &&
            PyUnicode_Compare(PyTuple_GET_ITEM(key, 0), file) == 0) {
            return (uint32_t)PyLong_AsUnsignedLong(value);
        }
    }
    return NO_SITE;
}

static void find_known(struct code_sites *entry)
{
    if (!file_is_known(entry->file)) {
        return;
    }
    int line = -1;
    uint32_t site = NO_SITE, *sites = calloc(entry->instructions, sizeof *sites);
    bool any = false;
    for (uint32_t n = 0; sites != NULL && n < entry->instructions; n++) {
        int now = PyCode_Addr2Line(entry->code, (int)(n * sizeof(_Py_CODEUNIT)));
        if (now != line) {
            line = now;
            site = number_of(entry->file, line);
        }
        sites[n] = site;
        any |= site != NO_SITE;
    }
    if (!any) {
        free(sites);
        sites = NULL;
    }
    entry->sites = sites;
}

static uint32_t new_number(struct code_sites *entry, uint32_t instruction)
{
    int line = PyCode_Addr2Line(entry->code, (int)(instruction * sizeof(_Py_CODEUNIT)));
    /* Other instructions of the line. */
    for (uint32_t n = 0; n < entry->instructions; n++) {
        if (entry->sites[n] != NO_SITE && lines[entry->sites[n] - 1].line == line) {
            return entry->sites[n];
        }
    }
    if (lines_used == lines_room) {
        uint32_t room = lines_room ? lines_room * 2 : 1024;
        struct line *all = room <= MAX_SITES ? realloc(lines, room * sizeof *all) : NULL;
        if (all == NULL) {
            return NO_SITE;
        }
        lines = all;
        lines_room = room;
    }
    Py_INCREF(entry->code);
    lines[lines_used++] = (struct line){entry->code, line};
    return lines_used;
}

static void fill(struct code_sites *entry, PyCodeObject *code)
{
    free(entry->sites);
    *entry = (struct code_sites){.code = code,
                                 .file = code->co_filename,
                                 .first_line = code->co_firstlineno,
                                 .instructions = (uint32_t)Py_SIZE(code)};
    if (known != NULL) {
        find_known(entry);
    } else {
        entry->sites = calloc(entry->instructions, sizeof *entry->sites);
    }
}

static struct code_sites *entry_of(PyCodeObject *code)
{
    if (2 * table_used >= table_size && !grow()) {
        return NULL;
    }
    uint32_t slot = slot_of(code);
    while (table[slot].code != NULL && table[slot].code != code) {
        slot = (slot + 1) & (table_size - 1);
    }
    struct code_sites *entry = &table[slot];
    if (entry->code == NULL) {
        table_used++;
        fill(entry, code);
    } else if (entry->file != code->co_filename || entry->first_line != code->co_firstlineno ||
               entry->instructions != (uint32_t)Py_SIZE(code)) {
        fill(entry, code);
    }
    return entry;
}

/* The innermost frame of Python code that has begun. */
static _PyInterpreterFrame *frame_now(PyThreadState *state)
{
#if PY_VERSION_HEX >= 0x030d0000
    _PyInterpreterFrame *frame = state->current_frame;
#else
    _PyInterpreterFrame *frame = state->cframe->current_frame;
#endif
    while (frame != NULL && _PyFrame_IsIncomplete(frame)) {
        frame = frame->previous;
    }
    return frame;
}

static PyCodeObject *code_of(_PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030d0000
    return _PyFrame_GetCode(frame);
#else
    return frame->f_code;
#endif
}

uint32_t site_now(PyThreadState *state)
{
    _PyInterpreterFrame *frame = frame_now(state);
    if (frame == NULL) {
        return NO_SITE;
    }
    PyCodeObject *code = code_of(frame);
    struct code_sites *entry = entry_of(code);
    if (entry == NULL || entry->sites == NULL) {
        return NO_SITE;
    }
    int instruction = _PyInterpreterFrame_LASTI(frame);
    if (instruction < 0 || (uint32_t)instruction >= entry->instructions) {
        return NO_SITE;
    }
    uint32_t *site = &entry->sites[instruction];
    if (*site == NO_SITE && known == NULL) {
        *site = new_number(entry, (uint32_t)instruction);
    }
    return *site;
}
#else
/* Heaps do not exist on these builds (heaps_functions.c), and so no hook asks. */
static PyObject *known, *known_files;
uint32_t site_now(PyThreadState *Py_UNUSED(state))
{
    return NO_SITE;
}
#endif

int sites_known(PyObject *numbers)
{
    PyObject *files = PyList_New(0), *key, *value;
    for (Py_ssize_t at = 0; files != NULL && PyDict_Next(numbers, &at, &key, &value);) {
        PyObject *file = PyTuple_GET_ITEM(key, 0);
        int there = PySequence_Contains(files, file);
        if (there < 0 || (there == 0 && PyList_Append(files, file) < 0)) {
            Py_CLEAR(files);
        }
    }
    if (files == NULL) {
        return -1;
    }
    known_files = files;
    known = Py_NewRef(numbers);
    return 0;
}

uint32_t sites_count(void)
{
#ifdef Py_GIL_DISABLED
    return 0;
#else
    return lines_used;
#endif
}

PyObject *sites_list(void)
{
    PyObject *list = PyList_New(0);
#ifndef Py_GIL_DISABLED
    for (uint32_t n = 0; list != NULL && n < lines_used; n++) {
        struct line at = lines[n];
        PyObject *site =
            Py_BuildValue("(OOi)", at.code->co_filename, at.code->co_qualname, at.line);
        if (site == NULL || PyList_Append(list, site) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(site);
    }
#endif
    return list;
}
