/* The method of `Table` that compares parts of memory. */
#include "table_object.h"
#include "uses.h"

#include <stdlib.h>

struct sampled_page {
    uint64_t address;
    float hotness;
};

/* True if a page was checked: before, its hotness is not known. */
static bool checked(const struct chunk *chunk, unsigned i)
{
    return chunk->flags[i] & PAGE_KNOWN && chunk->visited_ns[i / PIECE_PAGES] != 0;
}

/* Lists at most `most` of the checked pages of a range, evenly spread. */
static size_t sample(struct table *table, uint64_t start, uint64_t end, size_t most,
                     struct sampled_page *out)
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
                out[found++] = (struct sampled_page){address, chunk->hotness[i]};
            }
        })
    }
    return found;
}

const char table_mean_doc[] = "mean(start, end, most, types=None)\n--\n\n"
                              "The number of pages that were examined between two addresses, at "
                              "most `most` and evenly spread, "
                              "and their mean hotness. With `types`, as of `coldest_fast`, only\n"
                              "pages whose uses all write.";
PyObject *table_mean(PyObject *self, PyObject *args)
{
    struct table *table = &((struct table_object *)self)->table;
    unsigned long long start, end;
    Py_ssize_t most;
    Py_buffer addresses = {0};
    PyObject *known = Py_None;
    if (!PyArg_ParseTuple(args, "KKn|O:mean", &start, &end, &most, &known) ||
        (known != Py_None && PyObject_GetBuffer(known, &addresses, PyBUF_SIMPLE) < 0)) {
        return NULL;
    }
    most = most > 0 ? most : 1;
    struct types types;
    struct uses *uses = calloc(1, sizeof *uses);
    struct sampled_page *pages = malloc((size_t)most * sizeof *pages);
    bool failed = uses == NULL || pages == NULL ||
                  types_fill(&types, addresses.buf, (size_t)addresses.len / 8) != 0;
    size_t judged = 0;
    double sum = 0;
    if (!failed) {
        uses->types = &types;
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&table->lock);
        size_t found = sample(table, start, end, (size_t)most, pages);
        pthread_mutex_unlock(&table->lock);
        for (size_t n = 0; n < found; n++) {
            bool tail;
            if (known == Py_None || uses_write(uses, pages[n].address, &tail)) {
                sum += (double)pages[n].hotness;
                judged++;
            }
        }
        Py_END_ALLOW_THREADS types_clear(&types);
    }
    PyBuffer_Release(&addresses);
    free(uses);
    free(pages);
    double mean = judged > 0 ? sum / (double)judged : 0.0;
    return failed ? PyErr_NoMemory() : Py_BuildValue("(kd)", (unsigned long)judged, mean);
}
