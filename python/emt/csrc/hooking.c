#include "hooking.h"

#include "hooks.h"
#include "wanted.h"

#include <dlfcn.h>
#include <stdatomic.h>

static const PyMemAllocatorDomain ids[DOMAINS] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ,
                                                  PYMEM_DOMAIN_RAW};
/* Calls of the hooks while nothing asks, after which they are taken away: a program that opens
 * blocks often keeps them. */
#define IDLE_CALLS 10000u
static _Atomic unsigned idle_calls;

/* What the domains had before the heaps, and which of them are hooked. */
static PyMemAllocatorEx first[DOMAINS];
static bool hooked[DOMAINS];

/* The size of a request that reached RAW, for `is_pymalloc`. */
static size_t noted_size;
static void *note_malloc(void *context, size_t size)
{
    noted_size = size;
    return original[RAW].malloc(context, size);
}

/* True if OBJ and MEM leave larger blocks to RAW as they are. Debugging allocators make them
 * larger, and the C library's ask no other. */
static bool is_pymalloc(void)
{
    PyMemAllocatorEx noting = original[RAW];
    noting.malloc = note_malloc;
    PyMem_SetAllocator(ids[RAW], &noting);
    bool is = true;
    for (int n = MEM; n <= OBJ; n++) {
        noted_size = 0;
        void *block = original[n].malloc(original[n].ctx, PYMALLOC_MAX + 1);
        is &= noted_size == PYMALLOC_MAX + 1;
        original[n].free(original[n].ctx, block);
    }
    PyMem_SetAllocator(ids[RAW], &original[RAW]);
    return is;
}

/* Sets a domain's hook, if it is not there or below another tool's. */
static void hook(int domain)
{
    PyMemAllocatorEx now, own = hooks[domain];
    PyMem_GetAllocator(ids[domain], &now);
    /* A tool that began above the hook has it still; one that began below it took it away when it
     * ended. */
    if (now.malloc == own.malloc || (hooked[domain] && now.malloc != first[domain].malloc)) {
        return;
    }
    original[domain] = now;
    own.ctx = now.ctx;
    if (through_raw && domain != RAW) {
        own.free = now.free;
    }
    PyMem_SetAllocator(ids[domain], &own);
    hooked[domain] = true;
}

/* Takes a hook away, so that it costs nothing, unless another tool has begun above it. */
static void unhook(int domain)
{
    PyMemAllocatorEx now;
    PyMem_GetAllocator(ids[domain], &now);
    if (through_raw && now.malloc == hooks[domain].malloc) {
        PyMem_SetAllocator(ids[domain], &original[domain]);
        hooked[domain] = false;
    }
}

void hooks_start(void)
{
    for (int n = 0; n < DOMAINS; n++) {
        PyMem_GetAllocator(ids[n], &original[n]);
        first[n] = original[n];
    }
    through_raw = is_pymalloc();
    heaps_open();
    if (through_raw) {
        hook(RAW);
    }
    if (asking > 0 || !through_raw) {
        hook(MEM);
        hook(OBJ);
    }
}

/* True if what a domain allocates reaches its hook. Programs may open a block for each object, and
 * PyMem_GetAllocator takes a lock since 3.13. */
static bool reached(void *(*allocate)(size_t), void (*release)(void *))
{
    probing = true;
    void *block = allocate(1);
    bool found = !probing;
    probing = false;
    if (block != NULL) {
        release(block);
    }
    return found;
}

void hooks_needed(void)
{
    atomic_store_explicit(&idle_calls, IDLE_CALLS, memory_order_relaxed);
    if (!reached(PyMem_Malloc, PyMem_Free)) {
        hook(MEM);
    }
    if (!reached(PyObject_Malloc, PyObject_Free)) {
        hook(OBJ);
    }
}

void hooks_idle(void)
{
    /* Not one operation, which would cost more: if another interpreter, which has a lock of its
     * own, counts at the same time, one call is not counted. */
    unsigned left = atomic_load_explicit(&idle_calls, memory_order_relaxed);
    if (left > 0) {
        atomic_store_explicit(&idle_calls, left - 1, memory_order_relaxed);
    } else if (main_state() != NULL) {
        unhook(MEM);
        unhook(OBJ);
    }
}

bool hooks_possible(void)
{
    Dl_info interpreter, hook;
    for (int n = 0; n < DOMAINS; n++) {
        PyMemAllocatorEx now;
        PyMem_GetAllocator(ids[n], &now);
        if (dladdr((void *)(uintptr_t)now.malloc, &hook) == 0 ||
            dladdr((void *)(uintptr_t)PyObject_Malloc, &interpreter) == 0 ||
            hook.dli_fbase != interpreter.dli_fbase) {
            return false;
        }
    }
    return true;
}
