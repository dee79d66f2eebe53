#include "hooks.h"

#include "hooking.h"
#include "lend.h"
#include "wanted.h"

#include <string.h>

PyMemAllocatorEx original[DOMAINS];
bool through_raw;

/* A block that the domain RAW shall give this thread next, as it gives pymalloc what pymalloc has
 * not itself: see `through_raw`. */
struct request {
    struct bins *bins; /* NULL: none */
    size_t size;
};
static _Thread_local struct request request __attribute__((tls_model("initial-exec")));

/* A request that pymalloc passes on, and counts. */
static size_t passed_on(struct bins *bins, size_t size)
{
    request = (struct request){bins, size};
    return size > PYMALLOC_MAX ? size : PYMALLOC_MAX + 1;
}

static void *__attribute__((noinline)) take_from(const PyMemAllocatorEx *else_by, struct bins *bins,
                                                 size_t size)
{
    if (through_raw) {
        void *passed = else_by->malloc(else_by->ctx, passed_on(bins, size));
        request.bins = NULL;
        return passed;
    }
    void *block = bins_malloc(bins, size);
    return block != NULL ? block : else_by->malloc(else_by->ctx, size);
}

/* With a profile most blocks are of no known line, and only pass here. */
static inline void *take(const PyMemAllocatorEx *else_by, size_t size)
{
    struct bins *bins = bins_now();
    return bins != NULL ? take_from(else_by, bins, size) : else_by->malloc(else_by->ctx, size);
}

static void *__attribute__((noinline)) take_zero(const PyMemAllocatorEx *else_by, size_t count,
                                                 size_t size)
{
    size_t bytes;
    struct bins *bins = __builtin_mul_overflow(count, size, &bytes) ? NULL : bins_now();
    if (bins != NULL && through_raw) {
        void *passed = else_by->calloc(else_by->ctx, 1, passed_on(bins, bytes));
        request.bins = NULL;
        return passed;
    }
    void *block = bins != NULL ? bins_calloc(bins, bytes) : NULL;
    return block != NULL ? block : else_by->calloc(else_by->ctx, count, size);
}

static void *__attribute__((noinline)) resize(const PyMemAllocatorEx *else_by, void *block,
                                              size_t size)
{
    struct region *region = heaps_region(block);
    if (region_resize(region, block, size)) {
        return block;
    }
    struct bins *bins = bins_of(region, block);
    size_t before = region_usable(region, block);
    void *moved = bins_malloc(bins, size);
    if (moved == NULL) {
        /* The heap is full: the block leaves it. */
        moved = else_by->malloc(else_by->ctx, size);
    }
    if (moved != NULL) {
        memcpy(moved, block, before < size ? before : size);
        region_free(region, bins, block);
    }
    return moved;
}

static void __attribute__((noinline)) give_back(void *block)
{
    struct region *region = heaps_region(block);
    region_free(region, bins_of(region, block), block);
}

_Thread_local bool probing __attribute__((tls_model("initial-exec")));

/* Calls while nothing asks. They are functions of their own, so that hooks save no registers. */

static void *__attribute__((noinline)) pass_malloc(const PyMemAllocatorEx *else_by, size_t size)
{
    if (probing) {
        probing = false;
        return NULL;
    }
    hooks_idle();
    return else_by->malloc(else_by->ctx, size);
}

static void *__attribute__((noinline)) pass_calloc(const PyMemAllocatorEx *else_by, size_t count,
                                                   size_t size)
{
    hooks_idle();
    return else_by->calloc(else_by->ctx, count, size);
}

/* The hooks of MEM and OBJ, which are there while something asks. The context is the original's. */
#define HOOKS(domain)                                                                              \
    static void *malloc_##domain(void *Py_UNUSED(context), size_t size)                            \
    {                                                                                              \
        return asking != 0 ? take(&original[domain], size) : pass_malloc(&original[domain], size); \
    }                                                                                              \
    static void *calloc_##domain(void *Py_UNUSED(context), size_t count, size_t size)              \
    {                                                                                              \
        return asking != 0 ? take_zero(&original[domain], count, size)                             \
                           : pass_calloc(&original[domain], count, size);                          \
    }                                                                                              \
    static void *realloc_##domain(void *context, void *block, size_t size)                         \
    {                                                                                              \
        if (block == NULL) {                                                                       \
            return malloc_##domain(context, size);                                                 \
        }                                                                                          \
        return __builtin_expect(!through_raw && heaps_have(block), 0)                              \
                   ? resize(&original[domain], block, size)                                        \
                   : original[domain].realloc(context, block, size);                               \
    }                                                                                              \
    static void free_##domain(void *context, void *block)                                          \
    {                                                                                              \
        if (__builtin_expect(heaps_have(block), 0)) {                                              \
            give_back(block);                                                                      \
        } else {                                                                                   \
            original[domain].free(context, block);                                                 \
        }                                                                                          \
    }
HOOKS(MEM)
HOOKS(OBJ)

/* Those of RAW. Its callers need no lock, but only holders of the interpreter's make requests, or
 * return a heap's blocks. */

/* What others allocate in blocks of this size is memory that the cold heap must not have borrowed;
 * smaller blocks come from arenas, or use memory again that was freed. */
#define LARGE ((size_t)64 << 10)

static void *malloc_RAW(void *context, size_t size)
{
    if (__builtin_expect(size >= LARGE, 0)) {
        lend_others_grow(size);
    }
    struct request now = request;
    request.bins = NULL;
    void *block = now.bins != NULL ? bins_malloc(now.bins, now.size) : NULL;
    return block != NULL ? block : original[RAW].malloc(context, size);
}

static void *calloc_RAW(void *context, size_t count, size_t size)
{
    if (__builtin_expect(size >= LARGE || count * size >= LARGE, 0)) {
        lend_others_grow(count * size);
    }
    struct request now = request;
    request.bins = NULL;
    void *block = now.bins != NULL ? bins_calloc(now.bins, now.size) : NULL;
    return block != NULL ? block : original[RAW].calloc(context, count, size);
}

static void *realloc_RAW(void *context, void *block, size_t size)
{
    if (__builtin_expect(size >= LARGE, 0)) {
        lend_others_grow(size);
    }
    return heaps_have(block) ? resize(&original[RAW], block, size)
                             : original[RAW].realloc(context, block, size);
}

static void free_RAW(void *context, void *block)
{
    if (__builtin_expect(heaps_have(block), 0)) {
        give_back(block);
    } else {
        original[RAW].free(context, block);
    }
}

const PyMemAllocatorEx hooks[DOMAINS] = {
    {NULL, malloc_MEM, calloc_MEM, realloc_MEM, free_MEM},
    {NULL, malloc_OBJ, calloc_OBJ, realloc_OBJ, free_OBJ},
    {NULL, malloc_RAW, calloc_RAW, realloc_RAW, free_RAW},
};
