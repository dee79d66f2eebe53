/* The page table as a Python object: `Table`.
 *
 * No thread waits for the table's lock while it holds the interpreter's. No thread that holds the
 * table's lock calls Python or creates an object. */
#include "choose.h"
#include "moves.h"
#include "table_object.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static PyTypeObject *table_type;

struct table *table_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, table_type)) {
        PyErr_Format(PyExc_TypeError, "a %s where a Table is needed", Py_TYPE(object)->tp_name);
        return NULL;
    }
    return &((struct table_object *)object)->table;
}

static struct table *own(PyObject *self)
{
    return &((struct table_object *)self)->table;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Table", names)) {
        return NULL;
    }
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL && table_init(own(self)) != 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    table_clear(own(self));
    pthread_mutex_destroy(&own(self)->lock);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t length(PyObject *self)
{
    return (Py_ssize_t)own(self)->pages;
}

static PyObject *counts_tuple(const size_t counts[BUCKETS])
{
    PyObject *tuple = PyTuple_New(BUCKETS);
    for (int n = 0; tuple != NULL && n < BUCKETS; n++) {
        PyObject *count = PyLong_FromSize_t(counts[n]);
        if (count == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, n, count);
        }
    }
    return tuple;
}

PyDoc_STRVAR(histogram_doc,
             "histogram()\n--\n\nPages by bucket, of the fast tier and of the slow one.");
static PyObject *histogram(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct table *table = own(self);
    size_t counts[2][BUCKETS] = {{0}};
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    EACH_PAGE(table, counts[chunk->tier[i]][table_bucket(chunk->hotness[i])]++;)
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS PyObject *fast = counts_tuple(counts[TIER_FAST]);
    PyObject *slow = counts_tuple(counts[TIER_SLOW]);
    if (fast == NULL || slow == NULL) {
        Py_XDECREF(fast);
        Py_XDECREF(slow);
        return NULL;
    }
    return Py_BuildValue("(NN)", fast, slow);
}

PyDoc_STRVAR(judge_doc, "judge(h)\n--\n\n"
                        "A round: counts for each page that was checked since the last how many "
                        "checks in a row found it below bucket h, and for each that\n"
                        "rests one round less.");
static PyObject *judge(PyObject *self, PyObject *arg)
{
    struct table *table = own(self);
    long h = PyLong_AsLong(arg);
    if (h == -1 && PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    EACH_PAGE(table, {
        bool cold = (long)table_bucket(chunk->hotness[i]) < h,
             sampled = chunk->flags[i] & PAGE_SAMPLED;
        chunk->cold[i] = (uint8_t)(cold ? chunk->cold[i] + (sampled && chunk->cold[i] < 255) : 0);
        chunk->flags[i] &= (uint8_t)~PAGE_SAMPLED;
        chunk->rests[i] -= chunk->rests[i] > 0;
    })
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* Returns the pages that match the wish, as bytes. */
static PyObject *chosen(struct table *table, struct wish wish, const struct judge *judge)
{
    size_t pages = table->pages, most = wish.limit < pages ? wish.limit : pages, found = 0;
    wish.limit = most;
    uint64_t *out = malloc((most + 1) * sizeof *out);
    struct candidate *listed = malloc((most + MAX_REFUSED) * sizeof *listed);
    if (out != NULL && listed != NULL) {
        Py_BEGIN_ALLOW_THREADS found = choose(table, &wish, judge, listed, out);
        Py_END_ALLOW_THREADS
    }
    PyObject *bytes =
        out == NULL || listed == NULL
            ? PyErr_NoMemory()
            : PyBytes_FromStringAndSize((char *)out, (Py_ssize_t)(found * sizeof *out));
    free(listed);
    free(out);
    return bytes;
}

static PyObject *chosen_by_types(struct table *table, struct wish wish, struct judge judge,
                                 const Py_buffer *addresses)
{
    struct types types;
    judge.uses = malloc(sizeof *judge.uses);
    if (judge.uses == NULL || types_fill(&types, addresses->buf, (size_t)addresses->len / 8) != 0) {
        free(judge.uses);
        return PyErr_NoMemory();
    }
    judge.uses->types = &types;
    judge.uses->base = 0;
    PyObject *result = chosen(table, wish, &judge);
    types_clear(&types);
    free(judge.uses);
    return result;
}

PyDoc_STRVAR(coldest_fast_doc, "coldest_fast(h, patience, limit, types=None)\n--\n\n"
                               "Addresses (8 bytes each) of fast pages below bucket h that were "
                               "cold so many samplings in a row, and are no part of a huge\n"
                               "page. With `types` (addresses of 8 bytes each) only pages whose "
                               "blocks in use are mortal objects of these types.");
static PyObject *coldest_fast(PyObject *self, PyObject *args)
{
    struct wish wish = {.tier = TIER_FAST};
    Py_ssize_t limit;
    Py_buffer types = {0};
    PyObject *known = Py_None;
    if (!PyArg_ParseTuple(args, "lln|O:coldest_fast", &wish.h, &wish.patience, &limit, &known) ||
        (known != Py_None && PyObject_GetBuffer(known, &types, PyBUF_SIMPLE) < 0)) {
        return NULL;
    }
    wish.limit = limit > 0 ? (size_t)limit : 0;
    struct judge judge = {.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    PyObject *result = known == Py_None ? chosen(own(self), wish, &judge)
                                        : chosen_by_types(own(self), wish, judge, &types);
    if (judge.pagemap >= 0) {
        close(judge.pagemap);
    }
    PyBuffer_Release(&types);
    return result;
}

PyDoc_STRVAR(
    hottest_slow_doc,
    "hottest_slow(h, limit)\n--\n\nAddresses (8 bytes each) of slow pages in bucket h and above.");
static PyObject *hottest_slow(PyObject *self, PyObject *args)
{
    struct wish wish = {.tier = TIER_SLOW};
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(args, "ln:hottest_slow", &wish.h, &limit)) {
        return NULL;
    }
    wish.limit = limit > 0 ? (size_t)limit : 0;
    return chosen(own(self), wish, NULL);
}

PyDoc_STRVAR(hotness_doc,
             "hotness(address)\n--\n\nOf the page at an address; 0 if it is not known.");
static PyObject *hotness(PyObject *self, PyObject *arg)
{
    struct table *table = own(self);
    uintptr_t address = PyLong_AsSize_t(arg);
    if (PyErr_Occurred()) {
        return NULL;
    }
    double found = 0.0;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    struct chunk *chunk = table_chunk(table, address, false);
    found = chunk == NULL ? 0.0 : (double)chunk->hotness[(address - chunk->base) >> PAGE_SHIFT];
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS return PyFloat_FromDouble(found);
}

PyDoc_STRVAR(pages_doc, "pages()\n--\n\n"
                        "Of all pages by address: addresses (8 bytes each), hotness (4 bytes, "
                        "float), tiers (1 byte, 0 is fast).");
static PyObject *pages(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct table *table = own(self);
    /* No Python object is created under the lock. Pages that become known meanwhile are omitted. */
    Py_ssize_t room = length(self), n = 0;
    uint64_t *addresses = malloc(((size_t)room + 1) * sizeof *addresses);
    float *values = malloc(((size_t)room + 1) * sizeof *values);
    char *tiers = malloc((size_t)room + 1);
    PyObject *result = NULL;
    if (addresses == NULL || values == NULL || tiers == NULL) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
        EACH_PAGE(table, {
            if (n < room) {
                addresses[n] = chunk->base + i * PAGE_BYTES;
                values[n] = chunk->hotness[i];
                tiers[n++] = (char)chunk->tier[i];
            }
        })
        pthread_mutex_unlock(&table->lock);
        Py_END_ALLOW_THREADS result =
            Py_BuildValue("(y#y#y#)", (char *)addresses, n * 8, (char *)values, n * 4, tiers, n);
    }
    free(addresses);
    free(values);
    free(tiers);
    return result;
}

PyDoc_STRVAR(idle_doc, "idle()\n--\n\n"
                       "Of all pages by address: addresses (8 bytes each), and the seconds since "
                       "each was last found touched, or since it was first found if it\nwas never "
                       "(4 bytes each).");
static PyObject *idle(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct table *table = own(self);
    Py_ssize_t room = length(self), n = 0;
    uint64_t *addresses = malloc(((size_t)room + 1) * sizeof *addresses);
    uint32_t *seconds = malloc(((size_t)room + 1) * sizeof *seconds);
    PyObject *result = NULL;
    if (addresses == NULL || seconds == NULL) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
        uint16_t now = table_now(table);
        EACH_PAGE(table, {
            if (n < room) {
                addresses[n] = chunk->base + i * PAGE_BYTES;
                seconds[n++] =
                    (uint32_t)((now - chunk->touched[i]) * (TICK_NS / INT64_C(1000000000)));
            }
        })
        pthread_mutex_unlock(&table->lock);
        Py_END_ALLOW_THREADS result =
            Py_BuildValue("(y#y#)", (char *)addresses, n * 8, (char *)seconds, n * 4);
    }
    free(addresses);
    free(seconds);
    return result;
}

PyDoc_STRVAR(heat_doc, "heat(bins)\n--\n\nThe mean hotness (4 bytes, float) of each of so many "
                       "equal parts of the pages, by address.");
static PyObject *heat(PyObject *self, PyObject *arg)
{
    struct table *table = own(self);
    Py_ssize_t bins = PyLong_AsSsize_t(arg);
    if (bins < 1 || bins > 65536) {
        return PyErr_Occurred()
                   ? NULL
                   : PyErr_Format(PyExc_ValueError, "%zd bins; allowed: 1 to 65536", bins);
    }
    PyObject *result = PyBytes_FromStringAndSize(NULL, bins * 4);
    if (result == NULL) {
        return NULL;
    }
    float *mean = (float *)(void *)PyBytes_AS_STRING(result);
    memset(mean, 0, (size_t)bins * 4);
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    size_t n = 0, pages = table->pages, in_bin = 0, bin = 0;
    EACH_PAGE(table, {
        size_t now = n++ * (size_t)bins / pages;
        if (now != bin) {
            mean[bin] /= (float)(in_bin > 0 ? in_bin : 1);
            bin = now;
            in_bin = 0;
        }
        mean[bin] += chunk->hotness[i];
        in_bin++;
    })
    mean[bin] /= (float)(in_bin > 0 ? in_bin : 1);
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS return result;
}

PyDoc_STRVAR(memory_doc, "memory_bytes()\n--\n\nThe memory of the table.");
static PyObject *memory_bytes(PyObject *self, PyObject *Py_UNUSED(none))
{
    struct table *table = own(self);
    return PyLong_FromSize_t(table->count * sizeof(struct chunk) +
                             table->room * sizeof(struct chunk *));
}

/* Queries the kernel for the nodes of the known pages of one chunk, and drops pages on no node. */
static void locate_chunk(struct table *table, struct chunk *chunk, uint64_t fast_nodes)
{
    void *address[CHUNK_PAGES];
    int status[CHUNK_PAGES];
    unsigned index[CHUNK_PAGES], count = 0;
    for (unsigned i = 0; i < CHUNK_PAGES; i++) {
        if (chunk->flags[i] & PAGE_KNOWN) {
            index[count] = i;
            address[count++] = (void *)(chunk->base + i * PAGE_BYTES);
        }
    }
    if (count == 0 || where_pages(count, address, status) != 0) {
        return;
    }
    for (unsigned n = 0; n < count; n++) {
        unsigned i = index[n];
        if (status[n] < 0) {
            chunk->flags[i] = 0;
            table->pages--;
        } else {
            chunk->tier[i] = node_in(fast_nodes, status[n]) ? TIER_FAST : TIER_SLOW;
        }
    }
}

static void drop_empty(struct table *table)
{
    size_t kept = 0;
    for (size_t at = 0; at < table->count; at++) {
        struct chunk *chunk = table->chunks[at];
        bool known = false;
        for (unsigned i = 0; i < CHUNK_PAGES && !known; i++) {
            known = chunk->flags[i] & PAGE_KNOWN;
        }
        if (known) {
            table->chunks[kept++] = chunk;
        } else {
            untracked_free(chunk, sizeof *chunk);
        }
    }
    table->count = kept;
}

PyDoc_STRVAR(locate_doc, "locate(fast_nodes, first, pages)\n--\n\n"
                         "Asks the kernel where pages are, from the first-th chunk on and until so "
                         "many were asked for; fast_nodes has a bit for each\n"
                         "node of the fast tier. Pages that are unmapped are dropped. Returns the "
                         "chunk to go on with, 0 at the end.");
static PyObject *locate(PyObject *self, PyObject *args)
{
    struct table *table = own(self);
    unsigned long long fast_nodes;
    Py_ssize_t first, limit;
    if (!PyArg_ParseTuple(args, "Knn:locate", &fast_nodes, &first, &limit)) {
        return NULL;
    }
    size_t at = first > 0 ? (size_t)first : 0;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
    for (Py_ssize_t asked = 0; at < table->count && asked < limit; at++, asked += CHUNK_PAGES) {
        locate_chunk(table, table->chunks[at], fast_nodes);
        /* Other threads can take the lock between the kernel's answers. */
        pthread_mutex_unlock(&table->lock);
        pthread_mutex_lock(&table->lock);
    }
    if (at >= table->count) {
        at = 0;
        drop_empty(table);
    }
    pthread_mutex_unlock(&table->lock);
    Py_END_ALLOW_THREADS return PyLong_FromSize_t(at);
}

static PyMethodDef methods[] = {
    {"histogram", histogram, METH_NOARGS, histogram_doc},
    {"judge", judge, METH_O, judge_doc},
    {"coldest_fast", coldest_fast, METH_VARARGS, coldest_fast_doc},
    {"hottest_slow", hottest_slow, METH_VARARGS, hottest_slow_doc},
    {"place", table_place, METH_VARARGS, table_place_doc},
    {"refuse", table_refuse, METH_VARARGS, table_refuse_doc},
    {"see", table_take, METH_VARARGS, table_take_doc},
    {"check", table_check, METH_VARARGS, table_check_doc},
    {"hold", table_hold, METH_O, table_hold_doc},
    {"spread", table_spread, METH_VARARGS, table_spread_doc},
    {"hotness", hotness, METH_O, hotness_doc},
    {"pages", pages, METH_NOARGS, pages_doc},
    {"idle", idle, METH_NOARGS, idle_doc},
    {"heat", heat, METH_O, heat_doc},
    {"memory_bytes", memory_bytes, METH_NOARGS, memory_doc},
    {"locate", locate, METH_VARARGS, locate_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {Py_sq_length, length},
    {Py_tp_doc,
     "The software page table for whole pages; rates of touches by page, with their tiers."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "tierwise.emt._emt.Table",
    .basicsize = sizeof(struct table_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int add_table(PyObject *module)
{
    table_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return table_type == NULL ? -1 : PyModule_AddType(module, table_type);
}
