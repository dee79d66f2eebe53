#include "heaps.h"

#include "lend.h"

#include <errno.h>
#include <sys/mman.h>

/* A heap's addresses: twice the machine's memory, because a heap's free runs take addresses too. If
 * the process may not have so many (RLIMIT_AS), half of it, down to this. */
#define MIN_HEAP_BYTES ((size_t)256 << 20)

struct heaps heaps;

/* The heaps have nodes; the number of the one on the slow ones. */
static bool bound;
static int slow_heap;

int heaps_reserve(size_t bytes, bool fine)
{
    for (; bytes >= MIN_HEAP_BYTES; bytes /= 2) {
        bytes &= ~(REGION_STEP - 1);
        /* Twice the alignment fits an aligned part in; what is beyond costs nothing. */
        size_t room = HEAPS * bytes + REGION_STEP;
        void *memory =
            mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            continue;
        }
        uintptr_t start = ((uintptr_t)memory + REGION_STEP - 1) & ~(REGION_STEP - 1);
        int error = 0;
        for (int n = 0; n < HEAPS && error == 0; n++) {
            error = region_init(&heaps.regions[n], start + (uintptr_t)n * bytes, bytes, fine);
            bins_init(&heaps.bins[n], &heaps.regions[n], (uint32_t)n);
        }
        if (error == 0) {
            heaps.each_bytes = bytes;
            heaps.interpreter = PyInterpreterState_Main();
            heaps.start = start;
            return 0;
        }
        munmap(memory, room);
    }
    return ENOMEM;
}

void heaps_open(void)
{
    heaps.bytes = HEAPS * heaps.each_bytes;
}

static void fast_grows(uintptr_t Py_UNUSED(end), size_t bytes)
{
    lend_others_grow(bytes);
}

static void slow_grows(uintptr_t end, size_t Py_UNUSED(bytes))
{
    lend_cold_grows(end);
}

/* Binds a heap to the slow nodes, but for what it borrows, and the other to the fast ones. Returns
 * 0, or an error number. */
static int bind_heaps(int slow, bool move)
{
    struct region *cold = &heaps.regions[slow], *hot = &heaps.regions[1 - slow];
    cold->grows = hot->grows = NULL;
    uintptr_t end = cold->base + ((uintptr_t)cold->committed << PAGE_SHIFT);
    int error = lend_to(cold->base, end, hot->base, heaps.each_bytes, move);
    if (error == 0) {
        slow_heap = slow;
    }
    heaps.regions[slow_heap].grows = slow_grows;
    heaps.regions[1 - slow_heap].grows = fast_grows;
    return error;
}

int heaps_bind(uint64_t cold_nodes, uint64_t hot_nodes, uint64_t kept)
{
    lend_start(hot_nodes, cold_nodes, kept);
    int error = bind_heaps(0, false);
    bound = error == 0;
    return error;
}

int heaps_exchange(void)
{
    return bound ? bind_heaps(1 - slow_heap, true) : 0;
}

uintptr_t heaps_fast_end(int heap)
{
    uintptr_t start = heaps.regions[heap].base;
    if (!bound) {
        return start;
    }
    return heap == slow_heap ? lent_until() : start + heaps.each_bytes;
}

bool heaps_pool(uintptr_t address, struct pool_shape *pool)
{
    const void *at = (const void *)address;
    return heaps_have(at) && region_pool(heaps_region(at), address, pool);
}
