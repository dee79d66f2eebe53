/*
 * The guest's side of the true counts: it records every block of CPython's OBJ and MEM allocators
 * with its size, allocation site, context, age, type and generation, and adds up the plugin's
 * counters of its granules when the block is freed or a window ends.
 *
 * It is for CPython 3.13, because it reads interpreter frames. Nothing that it does itself is
 * counted: the flag `counting` is off meanwhile. The program must run Python code on one thread.
 */
#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_object.h"

#include "shared.h"

#if PY_VERSION_HEX < 0x030D0000 || PY_VERSION_HEX >= 0x030E0000
#error "the true counts read the frames of CPython 3.13"
#endif

/* Frames of a context: Jenga's contexts are call chains too, and deeper ones hardly differ. */
#define DEPTH 4
/* Blocks from a page on: they have pages of their own, and a page mover can split them. */
#define LARGE 4096
enum { NO_TYPE = 0 };
enum { GENERATION_NONE = 3, GENERATION_LATER = 4 };

/* A block as the analysis reads it (analyse.py has the same layout). */
struct record {
    uint64_t address;
    uint64_t size;
    /* Bytes that the program had allocated at the block's allocation. */
    uint64_t born_bytes;
    /* The clock (accesses counted) since which it is alive in this window. */
    uint64_t since[WINDOWS];
    uint64_t lived[WINDOWS];
    struct counts counts[WINDOWS];
    uint32_t context;
    uint32_t type;
    uint32_t generation;
    uint32_t next_free;
};

/* Freed blocks of equal properties, added up. */
struct freed {
    uint32_t used, context, type, generation, size_class, age, window, number;
    uint64_t byte_clock;
    uint64_t accesses;
    uint64_t misses;
};

struct site {
    PyCodeObject *code;
    int instruction;
    uint32_t id;
};

struct context {
    uint32_t sites[DEPTH];
    uint32_t used;
};

#define RECORDS (1u << 25)
#define FREED (1u << 22)
#define SITES (1u << 20)
#define CONTEXTS (1u << 22)
#define TYPES (1u << 16)

static struct shared *shared;
static struct record *records;
static uint32_t records_used = 1, free_record;
static struct freed *freed_blocks;
static uint32_t freed_used;
static struct site *sites;
static uint32_t sites_used;
static struct context *contexts;
static uint32_t contexts_used;
static PyTypeObject **types;
static uint32_t *type_ids;
static uint32_t types_used = 1;
static uint64_t allocated_bytes;
/* allocated_bytes at the start of each window. */
static uint64_t window_born[WINDOWS];
static const PyMemAllocatorDomain domains[2] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx original[2];
/* Own memory, which is no part of the program's. */
static uint64_t own[16][2];
static int own_used;

static void *table(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("truth: no memory for a table");
        exit(1);
    }
    own[own_used][0] = (uintptr_t)memory;
    own[own_used++][1] = (uintptr_t)memory + bytes;
    return memory;
}

static void full(const char *what)
{
    fprintf(stderr, "truth: the table of %s is full\n", what);
    exit(1);
}

static uint64_t mix(uint64_t word)
{
    word *= UINT64_C(0x9E3779B97F4A7C15);
    return word ^ word >> 29;
}

/* Returns the chunk of an address. The plugin maps it, so that it is none of the program's
 * mappings. */
static struct chunk *chunk_of(uint64_t address)
{
    struct chunk *volatile *chunk = &shared->chunks[address >> CHUNK_SHIFT];
    if (!*chunk)
        syscall(TRUTH_SYSCALL, TRUTH_CHUNK, address);
    return *chunk;
}

static uint32_t *slot_of(uint64_t address)
{
    return &chunk_of(address)->blocks[(address >> GRANULE_SHIFT) % CHUNK_GRANULES];
}

static uint32_t site_of(_PyInterpreterFrame *frame)
{
    PyCodeObject *code = _PyFrame_GetCode(frame);
    int instruction = _PyInterpreterFrame_LASTI(frame);
    uint64_t place = mix((uintptr_t)code ^ (uint64_t)(uint32_t)instruction << 48) % SITES;
    for (;; place = (place + 1) % SITES) {
        struct site *site = &sites[place];
        if (site->code == code && site->instruction == instruction)
            return site->id;
        if (!site->code) {
            if (sites_used == SITES / 2)
                full("sites");
            Py_INCREF(code);
            *site = (struct site){code, instruction, ++sites_used};
            return site->id;
        }
    }
}

static uint32_t context_now(void)
{
    PyThreadState *state = PyThreadState_GetUnchecked();
    struct context found = {.used = 1};
    if (state) {
        _PyInterpreterFrame *frame = state->current_frame;
        for (int depth = 0; frame && depth < DEPTH; frame = frame->previous)
            if (frame->owner != FRAME_OWNED_BY_CSTACK && PyCode_Check(frame->f_executable))
                found.sites[depth++] = site_of(frame);
    }
    uint64_t hash = 0;
    for (int depth = 0; depth < DEPTH; depth++)
        hash = mix(hash ^ found.sites[depth]);
    for (uint64_t place = hash % CONTEXTS;; place = (place + 1) % CONTEXTS) {
        struct context *context = &contexts[place];
        if (!context->used) {
            if (++contexts_used == CONTEXTS / 2)
                full("contexts");
            *context = found;
            return (uint32_t)place;
        }
        if (memcmp(context->sites, found.sites, sizeof found.sites) == 0)
            return (uint32_t)place;
    }
}

static uint32_t type_id(const PyTypeObject *type)
{
    if (!type || (uintptr_t)type & 15)
        return NO_TYPE;
    for (uint64_t place = mix((uintptr_t)type) % TYPES;; place = (place + 1) % TYPES) {
        if (types[place] == type)
            return type_ids[place];
        if (!types[place])
            return NO_TYPE;
    }
}

/* The type of the object in a block: it is the second word after the header that its kind has. */
static uint32_t type_of(const struct record *record)
{
    static const size_t headers[] = {0, 2, 4};
    const uint64_t *words = (const uint64_t *)(uintptr_t)record->address;
    for (int i = 0; i < 3; i++) {
        if (record->size < (headers[i] + 2) * 8)
            break;
        const PyTypeObject *type = (const PyTypeObject *)(uintptr_t)words[headers[i] + 1];
        uint32_t id = type_id(type);
        if (id != NO_TYPE && _PyType_PreHeaderSize((PyTypeObject *)type) == headers[i] * 8)
            return id;
    }
    return NO_TYPE;
}

static struct counts take_counts(const struct record *record)
{
    struct counts sum = {0, 0};
    if (record->size >= LARGE)
        return sum;
    for (uint64_t at = record->address; at < record->address + record->size;
         at += 1 << GRANULE_SHIFT) {
        struct counts *granule = &chunk_of(at)->granules[(at >> GRANULE_SHIFT) % CHUNK_GRANULES];
        sum.accesses += granule->accesses;
        sum.misses += granule->misses;
        *granule = (struct counts){0, 0};
    }
    return sum;
}

/* The logarithm to base 2 of the KiB that were allocated since the block, at the window's start; 0
 * for a block of this window. */
static uint32_t age_of(const struct record *record, int window)
{
    if (record->born_bytes >= window_born[window])
        return 0;
    uint64_t kib = (window_born[window] - record->born_bytes) >> 10;
    return kib ? 65 - (uint32_t)__builtin_clzll(kib) : 1;
}

static uint32_t size_class(uint64_t size)
{
    /* pymalloc's classes are multiples of 16 up to 512; beyond, powers of two. */
    return size <= 512 ? (uint32_t)(size + 15) / 16 : 96 - (uint32_t)__builtin_clzll(size);
}

static void add_freed(const struct record *record, struct counts counts)
{
    uint32_t window = shared->window;
    struct freed wanted = {.used = 1,
                           .context = record->context,
                           .type = type_of(record),
                           .generation = record->generation,
                           .size_class = size_class(record->size),
                           .age = age_of(record, (int)window),
                           .window = window};
    uint64_t hash = mix((uint64_t)wanted.context << 32 | wanted.type);
    hash = mix(hash ^ ((uint64_t)wanted.size_class << 32 | wanted.age << 8 | window << 4 |
                       wanted.generation));
    struct freed *freed;
    for (uint64_t place = hash % FREED;; place = (place + 1) % FREED) {
        freed = &freed_blocks[place];
        if (!freed->used) {
            if (++freed_used == FREED / 2)
                full("freed blocks");
            *freed = wanted;
            break;
        }
        if (memcmp(freed, &wanted, offsetof(struct freed, number)) == 0)
            break;
    }
    freed->number++;
    freed->byte_clock += record->size * (shared->accesses - record->since[window]);
    freed->accesses += counts.accesses;
    freed->misses += counts.misses;
}

static void on_allocated(void *block, size_t size)
{
    if (!block)
        return;
    uint32_t id = free_record;
    if (id)
        free_record = records[id].next_free;
    else if ((id = records_used++) == RECORDS)
        full("blocks");
    struct record *record = &records[id];
    *record = (struct record){.address = (uintptr_t)block,
                              .size = size ? size : 1,
                              .born_bytes = allocated_bytes,
                              .context = context_now(),
                              .generation = GENERATION_LATER};
    record->since[shared->window] = shared->accesses;
    allocated_bytes += record->size;
    /* What was counted here belongs to the allocator, and stays in the page's count. */
    take_counts(record);
    *slot_of(record->address) = id;
}

static void on_free(void *block)
{
    if (!block)
        return;
    uint32_t *slot = slot_of((uintptr_t)block);
    struct record *record = &records[*slot];
    if (!*slot)
        return;
    struct counts counts = take_counts(record);
    if (shared->ready && record->size < LARGE) {
        add_freed(record, counts);
        struct counts *page = &chunk_of(record->address)
                                   ->freed[shared->window][(record->address >> 12) % CHUNK_PAGES];
        page->accesses += counts.accesses;
        page->misses += counts.misses;
    }
    record->address = 0;
    record->next_free = free_record;
    free_record = *slot;
    *slot = 0;
}

static void *hook_malloc(void *context, size_t size)
{
    PyMemAllocatorEx *allocator = context;
    void *block = allocator->malloc(allocator->ctx, size);
    uint32_t counting = shared->counting;
    shared->counting = 0;
    on_allocated(block, size);
    shared->counting = counting;
    return block;
}

static void *hook_calloc(void *context, size_t number, size_t size)
{
    PyMemAllocatorEx *allocator = context;
    void *block = allocator->calloc(allocator->ctx, number, size);
    uint32_t counting = shared->counting;
    shared->counting = 0;
    on_allocated(block, number * size);
    shared->counting = counting;
    return block;
}

static void hook_free(void *context, void *block)
{
    PyMemAllocatorEx *allocator = context;
    uint32_t counting = shared->counting;
    shared->counting = 0;
    on_free(block);
    shared->counting = counting;
    allocator->free(allocator->ctx, block);
}

static void *hook_realloc(void *context, void *block, size_t size)
{
    /* A block that grows counts as freed and allocated: the interpreter's code that grows it is
     * its site from then on. */
    PyMemAllocatorEx *allocator = context;
    uint32_t counting = shared->counting;
    shared->counting = 0;
    on_free(block);
    shared->counting = counting;
    void *moved = allocator->realloc(allocator->ctx, block, size);
    shared->counting = 0;
    on_allocated(moved ? moved : block, size);
    shared->counting = counting;
    return moved;
}

static PyObject *install(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    syscall(TRUTH_SYSCALL, TRUTH_ADDRESS, &shared);
    if (!shared)
        return PyErr_Format(PyExc_RuntimeError, "this program runs without the counting plugin");
    records = table(RECORDS * sizeof *records);
    freed_blocks = table(FREED * sizeof *freed_blocks);
    sites = table(SITES * sizeof *sites);
    contexts = table(CONTEXTS * sizeof *contexts);
    types = table(TYPES * sizeof *types);
    type_ids = table(TYPES * sizeof *type_ids);
    for (int i = 0; i < 2; i++) {
        PyMem_GetAllocator(domains[i], &original[i]);
        PyMemAllocatorEx hook = {&original[i], hook_malloc, hook_calloc, hook_realloc, hook_free};
        PyMem_SetAllocator(domains[i], &hook);
    }
    Py_RETURN_NONE;
}

/* Enters the types whose objects are recognised. The caller keeps them alive. */
static PyObject *know_types(PyObject *module, PyObject *list)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyTypeObject *type = (PyTypeObject *)PyList_GetItem(list, i);
        if (!type)
            return NULL;
        if (type_id(type) != NO_TYPE)
            continue;
        if (types_used == TYPES / 2)
            full("types");
        uint64_t place = mix((uintptr_t)type) % TYPES;
        while (types[place])
            place = (place + 1) % TYPES;
        types[place] = type;
        type_ids[place] = types_used++;
    }
    return PyLong_FromUnsignedLong(types_used);
}

static PyObject *set_generation(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *list;
    unsigned generation;
    if (!PyArg_ParseTuple(args, "O!I", &PyList_Type, &list, &generation))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *object = PyList_GET_ITEM(list, i);
        uint64_t start = (uintptr_t)object - _PyType_PreHeaderSize(Py_TYPE(object));
        uint32_t id = *slot_of(start);
        if (id)
            records[id].generation = generation;
    }
    Py_RETURN_NONE;
}

static void clear_granules(void)
{
    for (uint64_t i = 0; i < CHUNKS; i++)
        if (shared->chunks[i])
            memset(shared->chunks[i]->granules, 0, sizeof shared->chunks[i]->granules);
}

static void close_records(void)
{
    uint32_t window = shared->window;
    for (uint32_t id = 1; id < records_used; id++) {
        struct record *record = &records[id];
        if (!record->address)
            continue;
        record->counts[window] = take_counts(record);
        record->lived[window] = shared->accesses - record->since[window];
    }
}

/* Starts window 0 (before it, set the generations), or ends window 0 and starts window 1. */
static PyObject *start_window(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned window;
    if (!PyArg_ParseTuple(args, "I", &window))
        return NULL;
    shared->counting = 0;
    if (window == 0) {
        syscall(TRUTH_SYSCALL, TRUTH_COUNT, 0L);
        while (!*(volatile uint32_t *)&shared->ready)
            usleep(1000);
    } else {
        close_records();
    }
    clear_granules();
    shared->window = window;
    window_born[window] = allocated_bytes;
    for (uint32_t id = 1; id < records_used; id++)
        records[id].since[window] = shared->accesses;
    shared->counting = 1;
    Py_RETURN_NONE;
}

/* Blocks that exist and that no generation has are not tracked by the collector. */
static PyObject *settle_generations(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    for (uint32_t id = 1; id < records_used; id++)
        if (records[id].generation == GENERATION_LATER)
            records[id].generation = GENERATION_NONE;
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    shared->counting = 0;
    /* What follows is not the program's. Blocks that it frees stay recorded. */
    for (int i = 0; i < 2; i++)
        PyMem_SetAllocator(domains[i], &original[i]);
    close_records();
    for (uint32_t id = 1; id < records_used; id++)
        if (records[id].address)
            records[id].type = type_of(&records[id]);
    return Py_BuildValue("KK", shared->accesses, shared->misses);
}

/* Identifiers beyond the types': memory that belongs to an object. */
enum part { DICT_KEYS = 1 << 20, LIST_ITEMS, SET_TABLE };

static void name_part(const void *block, enum part part)
{
    uint32_t id = block ? *slot_of((uintptr_t)block) : 0;
    if (id && records[id].type == NO_TYPE)
        records[id].type = part;
}

/* Names the blocks of a list of objects: tables of dicts and sets, items of lists. */
static PyObject *name_parts(PyObject *module, PyObject *list)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *object = PyList_GET_ITEM(list, i);
        if (PyDict_Check(object))
            name_part(((PyDictObject *)object)->ma_keys, DICT_KEYS);
        else if (PyList_Check(object))
            name_part(((PyListObject *)object)->ob_item, LIST_ITEMS);
        else if (PyAnySet_Check(object))
            name_part(((PySetObject *)object)->table, SET_TABLE);
    }
    Py_RETURN_NONE;
}

static int write_all(FILE *file, const void *data, size_t size, size_t number)
{
    return fwrite(data, size, number, file) == number;
}

static int write_pages(FILE *file)
{
    for (uint64_t i = 0; i < CHUNKS; i++) {
        struct chunk *chunk = shared->chunks[i];
        if (!chunk)
            continue;
        /* The emulator refuses system calls on memory that the guest did not map. */
        static struct {
            uint64_t base;
            struct counts pages[WINDOWS][CHUNK_PAGES], freed[WINDOWS][CHUNK_PAGES];
        } copy;
        copy.base = i << CHUNK_SHIFT;
        memcpy(copy.pages, chunk->pages, sizeof copy.pages);
        memcpy(copy.freed, chunk->freed, sizeof copy.freed);
        if (!write_all(file, &copy, sizeof copy, 1))
            return 0;
    }
    return 1;
}

/* Writes PREFIX.records, PREFIX.freed and PREFIX.pages, in the layouts of this file. */
static PyObject *dump(PyObject *module, PyObject *args)
{
    (void)module;
    const char *prefix;
    if (!PyArg_ParseTuple(args, "s", &prefix))
        return NULL;
    char path[4096];
    int good = 1;
    for (int part = 0; part < 3; part++) {
        static const char *const names[] = {"records", "freed", "pages"};
        snprintf(path, sizeof path, "%s.%s", prefix, names[part]);
        FILE *file = fopen(path, "wb");
        if (!file)
            return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
        if (part == 0) {
            for (uint32_t id = 1; id < records_used && good; id++)
                if (records[id].address)
                    good = write_all(file, &records[id], sizeof records[id], 1);
        } else if (part == 1) {
            for (uint32_t i = 0; i < FREED && good; i++)
                if (freed_blocks[i].used)
                    good = write_all(file, &freed_blocks[i], sizeof freed_blocks[i], 1);
        } else {
            good = write_pages(file);
        }
        if (fclose(file) != 0 || !good)
            return PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    }
    Py_RETURN_NONE;
}

/* Returns the names: sites (identifier, file, line, function), contexts (identifier, sites), types
 * (identifier, object), and the ranges of own memory. */
static PyObject *names(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    PyObject *all_sites = PyList_New(0), *all_contexts = PyList_New(0), *all_types = PyList_New(0),
             *ranges = PyList_New(0);
    for (uint32_t i = 0; i < SITES; i++)
        if (sites[i].code) {
            PyObject *one = Py_BuildValue(
                "IOiO", sites[i].id, sites[i].code->co_filename,
                PyCode_Addr2Line(sites[i].code, sites[i].instruction * (int)sizeof(_Py_CODEUNIT)),
                sites[i].code->co_qualname);
            PyList_Append(all_sites, one);
            Py_DECREF(one);
        }
    for (uint32_t i = 0; i < CONTEXTS; i++)
        if (contexts[i].used) {
            PyObject *one = Py_BuildValue("I(IIII)", i, contexts[i].sites[0], contexts[i].sites[1],
                                          contexts[i].sites[2], contexts[i].sites[3]);
            PyList_Append(all_contexts, one);
            Py_DECREF(one);
        }
    for (uint32_t i = 0; i < TYPES; i++)
        if (types[i]) {
            PyObject *one = Py_BuildValue("IO", type_ids[i], types[i]);
            PyList_Append(all_types, one);
            Py_DECREF(one);
        }
    for (int i = 0; i < own_used; i++) {
        PyObject *one = Py_BuildValue("KK", own[i][0], own[i][1]);
        PyList_Append(ranges, one);
        Py_DECREF(one);
    }
    return Py_BuildValue("NNNN", all_sites, all_contexts, all_types, ranges);
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, NULL},
    {"know_types", know_types, METH_O, NULL},
    {"set_generation", set_generation, METH_VARARGS, NULL},
    {"settle_generations", settle_generations, METH_NOARGS, NULL},
    {"start_window", start_window, METH_VARARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"name_parts", name_parts, METH_O, NULL},
    {"dump", dump, METH_VARARGS, NULL},
    {"names", names, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "truth_objects", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_truth_objects(void);

PyMODINIT_FUNC PyInit_truth_objects(void)
{
    return PyModule_Create(&definition);
}
