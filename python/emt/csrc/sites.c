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
#if PY_VERSION_HEX >= 0x030c0000
#define REQUEST_EXTRA PyUnstable_Eval_RequestCodeExtraIndex
#define SET_EXTRA PyUnstable_Code_SetExtra
#else
#define REQUEST_EXTRA _PyEval_RequestCodeExtraIndex
#define SET_EXTRA _PyCode_SetExtra
#endif

/* What is known of a code object. The object has it with its extra data, and frees it. */
struct code_sites {
    uint32_t instructions;
    uint32_t sites[]; /* by instruction; NO_SITE: not looked up yet */
};
/* That of code whose file has no given line. */
static struct code_sites nothing;

/* A code object's extra data, as Objects/codeobject.c has it. */
struct extras {
    Py_ssize_t size;
    void *all[];
};
static Py_ssize_t extra_index = -1;
/* While extra data is made: its own memory has no site. */
static bool making;

struct line {
    PyCodeObject *code; /* held */
    int line;
};
/* By number, if each line gets one. */
static struct line *lines;
static uint32_t lines_used, lines_room;
/* Sites of one run. A program has some thousand lines that allocate; more are NO_SITE. */
#define MAX_SITES (1u << 16)

/* True if the numbers of lines are given; else each line gets a new one. */
static bool given;
/* Names of the files that have a given line, so that other code costs one look at its name. */
static PyObject *known_files;
/* The given lines: open addressing, at most half full. It is searched within an allocation, where
 * no key of a dict can be made. */
struct known_line {
    PyObject *file; /* held */
    int line;
    uint32_t number;
};
static struct known_line *known;
static size_t known_size;
/* A line that was looked up and has no number. */
#define UNKNOWN UINT32_MAX

static size_t known_slot(Py_hash_t hash, int line)
{
    return (((uint64_t)hash ^ (uint32_t)line) * 0x9e3779b97f4a7c15ull >> 20) & (known_size - 1);
}

/* The number of a given line, or UNKNOWN. */
static uint32_t number_of(PyObject *file, int line)
{
    size_t slot = known_slot(PyObject_Hash(file), line);
    for (; known[slot].file != NULL; slot = (slot + 1) & (known_size - 1)) {
        const struct known_line *at = &known[slot];
        if (at->line == line && (at->file == file || PyUnicode_Compare(at->file, file) == 0)) {
            return at->number;
        }
    }
    return UNKNOWN;
}

static uint32_t new_number(PyCodeObject *code, struct code_sites *entry, uint32_t instruction)
{
    int line = PyCode_Addr2Line(code, (int)(instruction * sizeof(_Py_CODEUNIT)));
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
    Py_INCREF(code);
    lines[lines_used++] = (struct line){code, line};
    return lines_used;
}

static void forget(void *entry)
{
    if (entry != &nothing) {
        free(entry);
    }
}

static struct code_sites *made(PyCodeObject *code)
{
    struct code_sites *entry = &nothing;
    if (!given || PySet_Contains(known_files, code->co_filename) == 1) {
        size_t count = (size_t)Py_SIZE(code);
        entry = calloc(1, sizeof *entry + count * sizeof *entry->sites);
        if (entry == NULL) {
            return &nothing;
        }
        entry->instructions = (uint32_t)count;
    }
    making = true;
    int error = SET_EXTRA((PyObject *)code, extra_index, entry);
    making = false;
    if (error < 0) {
        forget(entry);
        return &nothing;
    }
    return entry;
}

/* NULL: the code object has none yet. */
static inline struct code_sites *entry_of(const PyCodeObject *code)
{
    const struct extras *extras = code->co_extra;
    return extras != NULL && extra_index < extras->size ? extras->all[extra_index] : NULL;
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

/* An instruction that was not looked up yet. It is a function of its own, so that the others save
 * no registers. */
static uint32_t __attribute__((noinline)) first_look(PyCodeObject *code, uint32_t instruction)
{
    if (making) {
        return NO_SITE;
    }
    struct code_sites *entry = entry_of(code);
    entry = entry != NULL ? entry : made(code);
    if (instruction >= entry->instructions) {
        return NO_SITE;
    }
    uint32_t site;
    if (given) {
        int line = PyCode_Addr2Line(code, (int)(instruction * sizeof(_Py_CODEUNIT)));
        site = number_of(code->co_filename, line);
    } else {
        site = new_number(code, entry, instruction);
    }
    entry->sites[instruction] = site;
    return site == UNKNOWN ? NO_SITE : site;
}

int sites_start(void)
{
    extra_index = REQUEST_EXTRA(forget);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "other tools have all extra data of code objects");
        return -1;
    }
    return 0;
}

uint32_t site_now(PyThreadState *state)
{
    _PyInterpreterFrame *frame = frame_now(state);
    if (frame == NULL) {
        return NO_SITE;
    }
    PyCodeObject *code = code_of(frame);
    const struct code_sites *entry = entry_of(code);
    /* Of a frame that has not begun it would be negative. */
    uint32_t instruction = (uint32_t)_PyInterpreterFrame_LASTI(frame);
    if (__builtin_expect(entry != NULL, 1)) {
        if (instruction >= entry->instructions) {
            return NO_SITE;
        }
        uint32_t site = entry->sites[instruction];
        if (__builtin_expect(site != NO_SITE, 1)) {
            return site == UNKNOWN ? NO_SITE : site;
        }
    }
    return first_look(code, instruction);
}

static int add_known(PyObject *file, int line, uint32_t number)
{
    if (PySet_Add(known_files, file) < 0) {
        return -1;
    }
    size_t slot = known_slot(PyObject_Hash(file), line);
    while (known[slot].file != NULL) {
        slot = (slot + 1) & (known_size - 1);
    }
    known[slot] = (struct known_line){Py_NewRef(file), line, number};
    return 0;
}

int sites_known(PyObject *numbers)
{
    size_t size = 2;
    while (size < 2 * (size_t)PyDict_Size(numbers)) {
        size *= 2;
    }
    known = calloc(size, sizeof *known);
    if (known == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    known_files = PySet_New(NULL);
    if (known_files == NULL) {
        return -1;
    }
    known_size = size;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(numbers, &at, &key, &value);) {
        if (add_known(PyTuple_GET_ITEM(key, 0), (int)PyLong_AsLong(PyTuple_GET_ITEM(key, 1)),
                      (uint32_t)PyLong_AsUnsignedLong(value)) < 0) {
            return -1;
        }
    }
    given = true;
    return 0;
}
#else
/* Heaps do not exist on these builds (heaps_functions.c), and so no hook asks. */
uint32_t site_now(PyThreadState *Py_UNUSED(state))
{
    return NO_SITE;
}

int sites_start(void)
{
    return 0;
}

int sites_known(PyObject *Py_UNUSED(numbers))
{
    return 0;
}
#endif

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
