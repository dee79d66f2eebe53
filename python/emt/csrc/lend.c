#include "lend.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Prefers several nodes, and uses others when they are full; Linux 5.15. */
#define EMT_MPOL_PREFERRED_MANY 5
/* The boundary is a multiple of 4 MiB, as the heap's growth is (COMMIT_UNITS). Free memory is read
 * once per 4 MiB that others grow: it takes some ten microseconds. */
#define STEP ((size_t)4 << 20)
/* Free memory above the reserve that the heap leaves to others: what they may take between two
 * readings (STEP), and what is accessible and not yet in use of both heaps (STEP each). */
#define HEADROOM (3 * STEP)
/* Of what is lent, the part that makes way at once: each call waits for all CPUs to drain their
 * lists of pages. */
#define PART_AT_ONCE 8
/* At most so much comes back at once: a page takes a microsecond or two. */
#define MAX_BACK ((size_t)64 << 20)
/* Memory that made way comes back after so long: what grew once may grow again. */
#define BACK_AFTER_NS INT64_C(10000000000)

static atomic_flag busy = ATOMIC_FLAG_INIT;
static struct {
    uintptr_t base, boundary, end;
    uint64_t fast, slow, reserve;
    int64_t made_way_ns; /* 0: never */
} lending;
static atomic_bool on;
static atomic_size_t grown;
/* Negative: nothing limits it. */
static _Atomic int64_t left = -1;

/* Binds addresses to nodes, and moves the pages that are there if `move`. Returns 0, or an error
 * number. */
static int bind_nodes(uintptr_t start, size_t bytes, uint64_t nodes, bool move)
{
    unsigned long mask = nodes;
    return syscall(SYS_mbind, start, bytes, EMT_MPOL_PREFERRED_MANY, &mask, 8 * sizeof mask + 1,
                   move ? MPOL_MF_MOVE : 0) == 0
               ? 0
               : errno;
}

/* Free bytes of a node; -1 if they are not known. The file is opened each time, because programs
 * close descriptors that they do not know. */
static int64_t free_on(int node)
{
    char name[64], text[1024];
    snprintf(name, sizeof name, "/sys/devices/system/node/node%d/meminfo", node);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    const char *found = strstr(text, "MemFree:");
    return found != NULL ? (int64_t)strtoull(found + strlen("MemFree:"), NULL, 10) << 10 : -1;
}

/* Free bytes of the fast nodes that this process may take, beyond what shall stay free. False: they
 * are not known. */
static bool spare(int64_t *bytes)
{
    int64_t free = -(int64_t)lending.reserve, limit = atomic_load(&left);
    for (int node = 0; node < 64; node++) {
        if (lending.fast >> node & 1) {
            int64_t here = free_on(node);
            if (here < 0) {
                return false;
            }
            free += here;
        }
    }
    *bytes = limit >= 0 && limit < free ? limit : free;
    return true;
}

static void take(int64_t bytes)
{
    /* Beside a new limit of another thread the sum is a little wrong, until the next limit. */
    int64_t limit = atomic_load(&left);
    if (limit >= 0) {
        atomic_store(&left, bytes < limit ? limit - bytes : 0);
    }
}

static void make_way(size_t bytes)
{
    size_t lent = lending.boundary - lending.base;
    size_t part = lent / PART_AT_ONCE, moved = (bytes > part ? bytes : part) + STEP - 1;
    moved = moved / STEP * STEP;
    moved = moved < lent ? moved : lent;
    lending.made_way_ns = monotonic_ns();
    if (moved > 0 && bind_nodes(lending.boundary - moved, moved, lending.slow, true) == 0) {
        lending.boundary -= moved;
        take(-(int64_t)moved);
    }
}

static void come_back(size_t bytes)
{
    size_t there = lending.end - lending.boundary, moved = bytes < MAX_BACK ? bytes : MAX_BACK;
    moved = (moved < there ? moved : there) / STEP * STEP;
    if (moved > 0 && bind_nodes(lending.boundary, moved, lending.fast, true) == 0) {
        lending.boundary += moved;
        take((int64_t)moved);
    }
}

/* Others will take so many bytes, or have taken them already. */
static void balance(size_t wanted)
{
    int64_t free;
    if (!spare(&free)) {
        return;
    }
    free -= (int64_t)wanted;
    if (free < (int64_t)STEP) {
        make_way((size_t)((int64_t)HEADROOM - free));
    } else if (free >= (int64_t)(2 * HEADROOM) && lending.boundary < lending.end &&
               (lending.made_way_ns == 0 || monotonic_ns() - lending.made_way_ns > BACK_AFTER_NS)) {
        come_back((size_t)free - HEADROOM);
    }
}

static PyObjectArenaAllocator arenas;
static void *watched_arena(void *context, size_t bytes)
{
    lend_others_grow(bytes);
    return arenas.alloc(context, bytes);
}

void lend_start(uint64_t fast, uint64_t slow, uint64_t reserve)
{
    lending.fast = fast;
    lending.slow = slow;
    lending.reserve = reserve;
    PyObject_GetArenaAllocator(&arenas);
    PyObjectArenaAllocator watched = {arenas.ctx, watched_arena, arenas.free};
    PyObject_SetArenaAllocator(&watched);
}

int lend_to(uintptr_t cold, uintptr_t end, uintptr_t hot, size_t bytes, bool move)
{
    while (atomic_flag_test_and_set(&busy)) {
        sched_yield();
    }
    /* First what makes way: fast memory may have space for the other only then. */
    int error = bind_nodes(cold, bytes, lending.slow, move);
    error = error ? error : bind_nodes(hot, bytes, lending.fast, move);
    if (error == 0) {
        lending.base = lending.boundary = cold;
        lending.end = end;
        lending.made_way_ns = 0;
        atomic_store(&on, true);
    }
    atomic_flag_clear(&busy);
    return error;
}

void lend_cold_grows(uintptr_t end)
{
    if (!atomic_load(&on) || atomic_flag_test_and_set(&busy)) {
        return;
    }
    /* Allocators leave it as it is where they succeed. */
    int error = errno;
    size_t more = end - lending.boundary;
    bool all_lent = lending.boundary == lending.end;
    int64_t free;
    lending.end = end;
    if (all_lent && spare(&free) && free >= (int64_t)(more + HEADROOM) &&
        bind_nodes(lending.boundary, more, lending.fast, false) == 0) {
        lending.boundary = end;
        take((int64_t)more);
    }
    errno = error;
    atomic_flag_clear(&busy);
}

void lend_others_grow(size_t bytes)
{
    if (!atomic_load(&on) || atomic_fetch_add(&grown, bytes) + bytes < STEP ||
        atomic_flag_test_and_set(&busy)) {
        return;
    }
    int error = errno;
    size_t wanted = atomic_exchange(&grown, 0);
    take((int64_t)wanted);
    /* What grew before this call is in use mostly, and counted by the kernel. */
    balance(bytes);
    errno = error;
    atomic_flag_clear(&busy);
}

void lend_follow(size_t wanted, int64_t room)
{
    if (!atomic_load(&on) || atomic_flag_test_and_set(&busy)) {
        return;
    }
    atomic_store(&left, room);
    balance(wanted);
    atomic_flag_clear(&busy);
}

uintptr_t lent_until(void)
{
    return atomic_load(&on) ? lending.boundary : 0;
}
