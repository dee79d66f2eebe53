#include "pools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pools *watched_pools;
static PyObjectArenaAllocator original;
static bool hooked;
static size_t arenas_freed; /* since the process started; under the lock */

static void *arena_alloc(void *context, size_t size)
{
    (void)context;
    return original.alloc(original.ctx, size);
}

/* The first pool at or after an address. */
static size_t pool_at(const struct pools *pools, uintptr_t address)
{
    size_t low = 0, high = pools->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pools->all[middle].base < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void arena_free(void *context, void *arena, size_t size)
{
    (void)context;
    pthread_mutex_lock(&pools_lock);
    uintptr_t start = (uintptr_t)arena;
    arenas_freed++;
    if (watched_pools != NULL) {
        for (size_t n = pool_at(watched_pools, start);
             n < watched_pools->count && watched_pools->all[n].base < start + size; n++) {
            watched_pools->all[n].gone = true;
        }
    }
    original.free(original.ctx, arena, size);
    pthread_mutex_unlock(&pools_lock);
}

static void lock_for_fork(void)
{
    pthread_mutex_lock(&pools_lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&pools_lock);
}

bool pools_watch(struct pools *watched)
{
    static bool fork_known;
    if (watched_pools != NULL) {
        return false;
    }
    if (!fork_known) {
        pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
        fork_known = true;
    }
    pthread_mutex_lock(&pools_lock);
    watched_pools = watched;
    pthread_mutex_unlock(&pools_lock);
    /* Our hook may still be installed below another one that wrapped it: installed twice it would
     * call itself.
     */
    if (!hooked) {
        PyObject_GetArenaAllocator(&original);
        PyObjectArenaAllocator ours = {NULL, arena_alloc, arena_free};
        PyObject_SetArenaAllocator(&ours);
        hooked = true;
    }
    return true;
}

void pools_unwatch(struct pools *watched)
{
    if (watched_pools != watched) {
        return;
    }
    PyObjectArenaAllocator now;
    PyObject_GetArenaAllocator(&now);
    /* Another extension may have wrapped our hook. It then stays installed and only passes calls
     * on. */
    if (now.free == arena_free) {
        PyObject_SetArenaAllocator(&original);
        hooked = false;
    }
    pthread_mutex_lock(&pools_lock);
    watched_pools = NULL;
    pthread_mutex_unlock(&pools_lock);
}

static int add(struct pools *pools, uintptr_t base, const struct pool_header *header)
{
    if (pools->count == pools->room) {
        size_t room = pools->room ? pools->room * 2 : 4096;
        struct pool *all = realloc(pools->all, room * sizeof *all);
        if (all == NULL) {
            return ENOMEM;
        }
        pools->all = all;
        pools->room = room;
    }
    pools->all[pools->count++] = (struct pool){
        .base = base,
        .arena = header->arena,
        .size_class = (uint8_t)header->size_class,
        .proven = header->free_block != 0,
    };
    return 0;
}

/* Headers that one call reads. */
#define BATCH 256

/* Max number of times that a batch is read again because arenas were freed meanwhile. Its pools are
 * then found in the next rotation. */
#define TRIES 3

static size_t arenas_gone(void)
{
    pthread_mutex_lock(&pools_lock);
    size_t freed = arenas_freed;
    pthread_mutex_unlock(&pools_lock);
    return freed;
}

static int note_batch(struct pools *pools, uintptr_t first, const struct pool_header *headers,
                      size_t read)
{
    int error = 0;
    for (size_t n = 0; error == 0 && n < read; n++) {
        if (pool_plausible(&headers[n], first + n * POOL_BYTES)) {
            error = add(pools, first + n * POOL_BYTES, &headers[n]);
        }
    }
    return error;
}

/* Finds the pools among up to BATCH places. It reads them without the lock, because the allocator
 * waits for the lock while it holds the interpreter's. The data read are valid if no arena was
 * freed before they are noted. A pool whose arena is freed later is marked. */
static int take_batch(struct pools *pools, uintptr_t first, size_t places)
{
    struct pool_header headers[BATCH];
    struct iovec remote[BATCH];
    for (size_t n = 0; n < places; n++) {
        remote[n] = (struct iovec){(void *)(first + n * POOL_BYTES), sizeof *headers};
    }
    struct iovec local = {headers, places * sizeof *headers};
    int error = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        size_t before = arenas_gone();
        ssize_t got = process_vm_readv(getpid(), &local, 1, remote, places, 0);
        if (got < 0) {
            return errno == EPERM || errno == ENOSYS ? errno : 0;
        }
        pthread_mutex_lock(&pools_lock);
        bool counts = arenas_freed == before;
        error = counts ? note_batch(pools, first, headers, (size_t)got / sizeof *headers) : 0;
        pthread_mutex_unlock(&pools_lock);
        if (counts) {
            break;
        }
    }
    return error;
}

/* Blocks of a pool whose links are checked: in most pools of containers the first of them is
 * linked. */
#define TRIED_BLOCKS 4

/* True if an object of the pool is linked in the collector's lists: its neighbour then points back
 * to it, and not to a copy of it. */
static bool linked(const struct pool *pool)
{
    for (uint32_t n = 0; n < TRIED_BLOCKS && n < pool_blocks(pool); n++) {
        for (uint32_t before = 0; before <= 16 && before + 32 <= pool_block_bytes(pool);
             before += 16) {
            uintptr_t head = pool->base + POOL_HEADER_BYTES + n * pool_block_bytes(pool) + before,
                      next, back;
            /* The two lowest bits of links are the collector's flags. */
            if (read_memory(head, &next, sizeof next) && (next &= ~(uintptr_t)3) != 0 &&
                next != head && read_memory(next + 8, &back, sizeof back) &&
                (back & ~(uintptr_t)3) == head) {
                return true;
            }
        }
    }
    return false;
}

static bool gone(const struct pool *pool)
{
    pthread_mutex_lock(&pools_lock);
    bool is = pool->gone;
    pthread_mutex_unlock(&pools_lock);
    return is;
}

static bool same_arena(const struct pool *one, const struct pool *other)
{
    return one->arena == other->arena && other->base - one->base < ARENA_BYTES;
}

/* Proves all adjacent pools whose headers name the same arena, if one of them is proven or has a
 * linked object.
 *
 * Memory is read without the lock, because the allocator waits for it while it holds the
 * interpreter's. Only the sampler's thread calls this function, and only it reads and writes
 * `proven`. If the arena is freed meanwhile, its pools are marked gone, which overrides any
 * proof. */
static void prove(struct pools *pools)
{
    for (size_t first = 0, last; first < pools->count; first = last) {
        bool proven = false;
        for (last = first; last < pools->count && same_arena(&pools->all[first], &pools->all[last]);
             last++) {
            proven |= pools->all[last].proven && !gone(&pools->all[last]);
        }
        for (size_t n = first; n < last && !proven; n++) {
            proven = linked(&pools->all[n]) && !gone(&pools->all[n]);
        }
        for (size_t n = first; n < last; n++) {
            pools->all[n].proven = proven;
        }
    }
}

/* Pools never occupy a larger range. Larger ranges are only reserved address space (a sanitizer's
 * shadow) and are not walked. */
#define MAX_RANGE_BYTES ((uintptr_t)1 << 40)

int pools_find(struct pools *pools)
{
    struct ranges ranges = {0};
    int error = ranges_read(&ranges);
    pthread_mutex_lock(&pools_lock);
    pools->count = 0;
    pthread_mutex_unlock(&pools_lock);
    for (size_t n = 0; n < ranges.count && error == 0; n++) {
        uintptr_t at = (ranges.all[n].start + POOL_BYTES - 1) & ~(POOL_BYTES - 1);
        bool reserved = ranges.all[n].end - ranges.all[n].start > MAX_RANGE_BYTES;
        while (error == 0 && !reserved && at + POOL_BYTES <= ranges.all[n].end) {
            size_t places = (ranges.all[n].end - at) / POOL_BYTES;
            places = places < BATCH ? places : BATCH;
            error = take_batch(pools, at, places);
            at += places * POOL_BYTES;
        }
    }
    ranges_clear(&ranges);
    prove(pools);
    return error;
}

void pools_clear(struct pools *pools)
{
    free(pools->all);
    memset(pools, 0, sizeof *pools);
}
