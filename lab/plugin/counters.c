/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "counters.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct counters) <= COUNTERS_PAGE_BYTES, "the header has a page of its own");
_Static_assert(offsetof(struct counters, loads) == 56, "as truth.py reads it");

static struct counters *mapped;
static uint32_t *misses;

static const char *map_file(const char *path, size_t bytes)
{
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return "the file of the counters cannot be opened";
    struct stat status;
    if (fstat(descriptor, &status) != 0 || (size_t)status.st_size < bytes) {
        close(descriptor);
        return "the file of the counters is too short for this guest's memory";
    }
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return NULL;
}

const char *counters_open(const char *path, uint64_t pages)
{
    size_t bytes = COUNTERS_PAGE_BYTES + pages * sizeof *misses;
    if (path) {
        const char *wrong = map_file(path, bytes);
        if (wrong)
            return wrong;
    } else {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (mapped == MAP_FAILED)
        return "the counters cannot be mapped";
    misses = (uint32_t *)((char *)mapped + COUNTERS_PAGE_BYTES);
    *mapped = (struct counters){.magic = COUNTERS_MAGIC, .pages = pages, .nodes = nodes_count()};
    return NULL;
}

struct counters *counters(void)
{
    return mapped;
}

uint32_t *counters_of_page(uint64_t page)
{
    return page < mapped->pages ? &misses[page] : NULL;
}
