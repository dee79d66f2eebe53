/* The method of `Table` that chooses pages of a part of memory, evenly spread. */
#include "table_object.h"
#include "uses.h"

#include <stdlib.h>

/* True if a page was checked: it is in use, and its memory is registered with the tracker. */
static bool checked(const struct chunk *chunk, unsigned i)
{
    return chunk->flags[i] & PAGE_KNOWN && chunk->visited_ns[i / PIECE_PAGES] != 0;
}

/* Lists at most `most` of the checked pages of a range, evenly spread. */
static size_t spread(struct table *table, uint64_t start, uint64_t end, size_t most, uint64_t *out)
{
    size_t there = 0, seen = 0, found = 0;
    for (int pass = 0; pass < 2; pass++) {
        size_t step = there / most + 1;
        EACH_PAGE(table, {
            uint64_t address = chunk->base + i * PAGE_BYTES;
            if (address < start || address >= end || !checked(chunk, i)) {
                continue;
            }
            if (pass == 0) {
                there++;
            } else if (seen++ % step == 0) {
                out[found++] = address;
            }
        })
    }
    return found;
}

/* Keeps those of the pages whose uses all write; returns their number. */
static size_t keep_written(struct uses *uses, uint64_t *pages, size_t count)
{
    size_t kept = 0;
    for (size_t n = 0; n < count; n++) {
        bool tail;
        if (uses_write(uses, pages[n], &tail)) {
            pages[kept++] = pages[n];
        }
    }
    return kept;
}

const char table_spread_doc[] = "spread(start, end, most, types=None)\n--\n\n"
                                "The addresses (8 bytes each) of at most `most` of the pages that "
                                "were checked between two addresses, evenly spread. With `types`, "
                                "as of `coldest_fast`, only those pages whose uses all write.";
PyObject *table_spread(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    unsigned long long start, end;
    Py_ssize_t most;
    Py_buffer addresses = {0};
    PyObject *known = Py_None, *result = NULL;
    if (!PyArg_ParseTuple(args, "KKn|O:spread", &start, &end, &most, &known) ||
        (known != Py_None && PyObject_GetBuffer(known, &addresses, PyBUF_SIMPLE) < 0)) {
        return NULL;
    }
    most = most > 0 ? most : 1;
    struct types types;
    struct uses *uses = calloc(1, sizeof *uses);
    uint64_t *pages = malloc((size_t)most * sizeof *pages);
    if (uses == NULL || pages == NULL ||
        types_fill(&types, addresses.buf, (size_t)addresses.len / 8) != 0) {
        PyErr_NoMemory();
    } else {
        uses->types = &types;
        size_t found;
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
        found = spread(table, start, end, (size_t)most, pages);
        pthread_mutex_unlock(&table->lock);
        found = known == Py_None ? found : keep_written(uses, pages, found);
        Py_END_ALLOW_THREADS types_clear(&types);
        result =
            PyBytes_FromStringAndSize((const char *)pages, (Py_ssize_t)(found * sizeof *pages));
    }
    PyBuffer_Release(&addresses);
    free(uses);
    free(pages);
    return result;
}
