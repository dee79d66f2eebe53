/* Hooks of CPython's allocators: new blocks come from the cold or the hot heap where the program
 * asked for it, and each block returns to the heap that it came from, which its address shows.
 *
 * The hooks are those of the domains OBJ and MEM, whose callers hold the interpreter's lock, and of
 * RAW (PyMem_SetAllocator). Those of RAW stay until the process ends, because blocks of the heaps
 * do. The others are there while something asks. */
#include "heap.h"
#include "lend.h"
#include "sites.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A heap's addresses: twice the machine's memory, because a heap's free runs take addresses too. If
 * the process may not have so many (RLIMIT_AS), half of it, down to this. */
#define MIN_HEAP_BYTES ((size_t)256 << 20)

enum { DEFAULT, COLD, HOT };
_Static_assert(HOT + 1 == HEAP_TIERS, "a tier per heap, and none");
#define HEAPS 2

/* One compare finds a block's heap: the regions are neighbours, of equal size. */
static uintptr_t heaps_start;
static size_t heaps_bytes, heap_bytes;
static struct region regions[HEAPS];
static struct bins heap_bins[HEAPS];

/* The heaps have nodes; the number of the one on the slow ones. */
static bool bound;
static int slow_heap;

/* Of a recording: bins per site, which fill pages of their own. Number 0 is for unknown sites. */
static struct bins **site_bins;
static uint32_t site_room;
static bool recording, by_site;

/* The tier that this thread's block asked for. The model costs one load relative to a register;
 * they fit in the room that the C library leaves for libraries loaded later. */
static _Thread_local uint8_t wanted __attribute__((tls_model("initial-exec")));
/* Threads that ask for a tier, and one more if sites do: with 0 the hooks pass on, and are taken
 * away soon. A thread that ends within a block is counted on, which costs the others only that. */
static unsigned asking;

enum { MEM, OBJ, RAW, DOMAINS };
static const PyMemAllocatorDomain ids[DOMAINS] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ,
                                                  PYMEM_DOMAIN_RAW};
static PyMemAllocatorEx original[DOMAINS];

/* A block that the domain RAW shall give this thread next, as it gives pymalloc what pymalloc has
 * not itself: see `hook`. */
struct request {
    struct bins *bins; /* NULL: none */
    size_t size;
};
static _Thread_local struct request request __attribute__((tls_model("initial-exec")));
/* From here on pymalloc leaves a request to the domain RAW. */
#define PYMALLOC_MAX 512
static bool through_raw;

static bool ours(const void *block)
{
    return (uintptr_t)block - heaps_start < heaps_bytes;
}

static struct region *region_of(const void *block)
{
    return &regions[((uintptr_t)block - heaps_start) / heap_bytes];
}

bool heaps_pool(uintptr_t address, struct pool_shape *pool)
{
    const void *at = (const void *)address;
    return ours(at) && region_pool(region_of(at), address, pool);
}

static struct bins *bins_of(struct region *region, const void *block)
{
    return recording ? site_bins[region_owner(region, block)] : &heap_bins[region - regions];
}

static PyThreadState *state_now(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

static struct bins *bins_of_site(uint32_t site)
{
    if (site >= site_room) {
        uint32_t room = site_room ? site_room * 2 : 1024;
        struct bins **all = realloc(site_bins, room * sizeof *all);
        if (all == NULL) {
            return site_bins != NULL ? site_bins[0] : NULL;
        }
        memset(all + site_room, 0, (room - site_room) * sizeof *all);
        site_bins = all;
        site_room = room;
    }
    if (site_bins[site] == NULL) {
        struct bins *bins = malloc(sizeof *bins);
        if (bins == NULL) {
            return site_bins[0];
        }
        bins_init(bins, &regions[0], site);
        site_bins[site] = bins;
    }
    return site_bins[site];
}

/* The bins for a new block; NULL: the original allocator's. Other interpreters may have a lock of
 * their own, and the heaps are the main one's. */
static struct bins *bins_now(void)
{
    PyThreadState *state = state_now();
    if (state == NULL || state->interp != PyInterpreterState_Main()) {
        return NULL;
    }
    if (recording) {
        return bins_of_site(site_now(state));
    }
    unsigned tier = wanted != DEFAULT ? wanted : by_site ? site_now(state) : DEFAULT;
    return tier == DEFAULT ? NULL : &heap_bins[tier - COLD];
}

/* A request that pymalloc passes on, and counts. */
static size_t passed_on(struct bins *bins, size_t size)
{
    request = (struct request){bins, size};
    return size > PYMALLOC_MAX ? size : PYMALLOC_MAX + 1;
}

static void *__attribute__((noinline)) take(const PyMemAllocatorEx *else_by, size_t size)
{
    struct bins *bins = bins_now();
    if (bins != NULL && through_raw) {
        void *passed = else_by->malloc(else_by->ctx, passed_on(bins, size));
        request.bins = NULL;
        return passed;
    }
    void *block = bins != NULL ? bins_malloc(bins, size) : NULL;
    return block != NULL ? block : else_by->malloc(else_by->ctx, size);
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
    struct region *region = region_of(block);
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
    struct region *region = region_of(block);
    region_free(region, bins_of(region, block), block);
}

/* Calls of the hooks while nothing asks, after which they are taken away: a program that opens
 * blocks often keeps them. */
#define IDLE_CALLS 10000u
static unsigned idle_calls;
static void hook(int domain);
static void unhook(int domain);

/* A call while nothing asks. */
static void __attribute__((noinline)) idle(void)
{
    PyThreadState *state = state_now();
    /* Another interpreter has a lock of its own. */
    if (state == NULL || state->interp != PyInterpreterState_Main()) {
        return;
    }
    if (idle_calls > 0) {
        idle_calls--;
    } else {
        unhook(MEM);
        unhook(OBJ);
    }
}

/* The hooks of MEM and OBJ, which are there while something asks. The context is the original's,
 * and is passed on. */
#define HOOKS(domain)                                                                              \
    static void *malloc_##domain(void *context, size_t size)                                       \
    {                                                                                              \
        if (asking != 0) {                                                                         \
            return take(&original[domain], size);                                                  \
        }                                                                                          \
        idle();                                                                                    \
        return original[domain].malloc(context, size);                                             \
    }                                                                                              \
    static void *calloc_##domain(void *context, size_t count, size_t size)                         \
    {                                                                                              \
        if (asking != 0) {                                                                         \
            return take_zero(&original[domain], count, size);                                      \
        }                                                                                          \
        idle();                                                                                    \
        return original[domain].calloc(context, count, size);                                      \
    }                                                                                              \
    static void *realloc_##domain(void *context, void *block, size_t size)                         \
    {                                                                                              \
        if (block == NULL) {                                                                       \
            return malloc_##domain(context, size);                                                 \
        }                                                                                          \
        return __builtin_expect(!through_raw && ours(block), 0)                                    \
                   ? resize(&original[domain], block, size)                                        \
                   : original[domain].realloc(context, block, size);                               \
    }                                                                                              \
    static void free_##domain(void *context, void *block)                                          \
    {                                                                                              \
        if (__builtin_expect(ours(block), 0)) {                                                    \
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
    return ours(block) ? resize(&original[RAW], block, size)
                       : original[RAW].realloc(context, block, size);
}

static void free_RAW(void *context, void *block)
{
    if (__builtin_expect(ours(block), 0)) {
        give_back(block);
    } else {
        original[RAW].free(context, block);
    }
}

/* Setting up. */

static int reserve(size_t bytes, bool fine)
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
            error = region_init(&regions[n], start + (uintptr_t)n * bytes, bytes, fine);
            bins_init(&heap_bins[n], &regions[n], (uint32_t)n);
        }
        if (error == 0) {
            heap_bytes = bytes;
            heaps_start = start;
            return 0;
        }
        munmap(memory, room);
    }
    return ENOMEM;
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
    struct region *cold = &regions[slow], *hot = &regions[1 - slow];
    cold->grows = hot->grows = NULL;
    uintptr_t end = cold->base + ((uintptr_t)cold->committed << PAGE_SHIFT);
    int error = lend_to(cold->base, end, hot->base, heap_bytes, move);
    if (error == 0) {
        slow_heap = slow;
    }
    regions[slow_heap].grows = slow_grows;
    regions[1 - slow_heap].grows = fast_grows;
    return error;
}

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

static const PyMemAllocatorEx hooks[DOMAINS] = {
    {NULL, malloc_MEM, calloc_MEM, realloc_MEM, free_MEM},
    {NULL, malloc_OBJ, calloc_OBJ, realloc_OBJ, free_OBJ},
    {NULL, malloc_RAW, calloc_RAW, realloc_RAW, free_RAW},
};
/* What the domains had before the heaps, and which of them are hooked. */
static PyMemAllocatorEx first[DOMAINS];
static bool hooked[DOMAINS];

/* pymalloc leaves what it did not allocate to the domain RAW, as it does with blocks of more than
 * 512 bytes. So a heap's blocks pass as blocks of RAW: then freeing a small block of the program's
 * costs nothing more, and pymalloc's count of blocks stays right. With another allocator MEM and
 * OBJ examine each address. */
static void hook_all(void)
{
    for (int n = 0; n < DOMAINS; n++) {
        PyMem_GetAllocator(ids[n], &original[n]);
        first[n] = original[n];
    }
    through_raw = is_pymalloc();
    heaps_bytes = HEAPS * heap_bytes;
    if (through_raw) {
        hook(RAW);
    }
    if (asking > 0 || !through_raw) {
        hook(MEM);
        hook(OBJ);
    }
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

/* True if the interpreter's own functions allocate. Hooks of a tool that began before may be taken
 * away when it ends, and these with them. */
static bool unhooked(void)
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

static size_t memory_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * PAGE_BYTES;
}

PyDoc_STRVAR(heaps_start_doc,
             "heaps_start(cold_nodes, hot_nodes, sites, kept, /)\n--\n\n"
             "Hooks the allocators, once in a process. The masks are of the nodes on which each "
             "heap's memory is preferred; 0 is no preference. `sites` is None, or a dict of (file, "
             "line): 1 for the cold heap, 2 for the hot one; or True, which gives each site pages "
             "of its own. The cold heap borrows fast memory beyond `kept` free bytes.\n\n"
             "Raises:\n    OSError: There are no addresses for the heaps, or the kernel refuses "
             "the policy.\n    RuntimeError: They are there already.");
static PyObject *heaps_begin(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long cold, hot, kept;
    PyObject *sites;
    if (!PyArg_ParseTuple(args, "KKOK:heaps_start", &cold, &hot, &sites, &kept)) {
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyErr_SetString(PyExc_RuntimeError, "a free-threaded interpreter finds its objects in its own "
                                        "allocator's heaps, and allows no others");
    return NULL;
#endif
    if (heaps_bytes > 0) {
        PyErr_SetString(PyExc_RuntimeError, "the heaps are there already");
        return NULL;
    }
    if (!unhooked()) {
        PyErr_SetString(PyExc_RuntimeError, "another tool has hooked the interpreter's allocators");
        return NULL;
    }
    bool fine = sites == Py_True;
    int error = reserve(2 * memory_bytes(), fine);
    if (error == 0 && cold != 0 && hot != 0) {
        lend_start(hot, cold, kept);
        error = bind_heaps(0, false);
        bound = error == 0;
    }
    if (error != 0) {
        /* The addresses stay reserved; they have no memory. */
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (fine && bins_of_site(NO_SITE) == NULL) {
        return PyErr_NoMemory();
    }
    if (PyDict_Check(sites) && sites_known(sites) < 0) {
        return NULL;
    }
    by_site = PyDict_Check(sites);
    recording = fine;
    asking = by_site || recording;
    hook_all();
    Py_RETURN_NONE;
}

uint8_t heaps_switch(uint8_t tier)
{
    uint8_t before = wanted;
    if (tier != DEFAULT && asking == 0 && heaps_bytes > 0) {
        idle_calls = IDLE_CALLS;
        hook(MEM);
        hook(OBJ);
    }
    wanted = heaps_bytes > 0 ? tier : DEFAULT;
    asking += (unsigned)(wanted != DEFAULT) - (unsigned)(before != DEFAULT);
    return before;
}

PyDoc_STRVAR(heap_of_doc, "heap_of(object, /)\n--\n\n"
                          "0 if no heap has the object, 1 the cold one, 2 the hot one.");
static PyObject *heap_of(PyObject *Py_UNUSED(module), PyObject *object)
{
    return PyLong_FromLong(ours(object) ? 1 + (region_of(object) - regions) : 0);
}

PyDoc_STRVAR(heap_ranges_doc, "heap_ranges()\n--\n\n"
                              "Per heap, cold first: its start, the end of what was ever in use, "
                              "the bytes of its blocks in use, the end of its addresses, and of "
                              "those that prefer the fast nodes.");
static PyObject *heap_ranges(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uintptr_t lent = lent_until();
    PyObject *list = PyList_New(0);
    for (int n = 0; list != NULL && n < HEAPS && heaps_bytes > 0; n++) {
        uintptr_t start = regions[n].base;
        PyObject *range =
            Py_BuildValue("(KKKKK)", (unsigned long long)start,
                          (unsigned long long)start + ((uint64_t)regions[n].top << PAGE_SHIFT),
                          (unsigned long long)regions[n].used,
                          (unsigned long long)start + ((uint64_t)regions[n].limit << PAGE_SHIFT),
                          (unsigned long long)(!bound           ? start
                                               : n == slow_heap ? lent
                                                                : start + heap_bytes));
        if (range == NULL || PyList_Append(list, range) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(range);
    }
    return list;
}

PyDoc_STRVAR(sites_of_doc, "sites_of(addresses, /)\n--\n\n"
                           "The numbers (4 bytes each) of the sites whose blocks are on pages, in "
                           "a recording; 0 is none.");
static PyObject *sites_of(PyObject *Py_UNUSED(module), PyObject *addresses)
{
    Py_buffer view;
    if (PyObject_GetBuffer(addresses, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Py_ssize_t count = view.len / (Py_ssize_t)sizeof(uint64_t);
    PyObject *result = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(uint32_t));
    for (Py_ssize_t n = 0; result != NULL && n < count; n++) {
        uint64_t address;
        memcpy(&address, (const char *)view.buf + n * 8, sizeof address);
        const void *at = (const void *)(uintptr_t)address;
        uint32_t owner = recording && ours(at) ? region_owner(region_of(at), at) : NO_UNIT;
        uint32_t site = owner == NO_UNIT ? NO_SITE : owner;
        memcpy(PyBytes_AS_STRING(result) + n * 4, &site, sizeof site);
    }
    PyBuffer_Release(&view);
    return result;
}

PyDoc_STRVAR(site_pages_doc, "site_pages()\n--\n\n"
                             "The pages (4 bytes each) that each site of a recording has now, by "
                             "its number.");
static PyObject *site_pages(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    Py_ssize_t count = (Py_ssize_t)sites_count() + 1;
    uint32_t *pages = calloc((size_t)count, sizeof *pages);
    if (pages == NULL) {
        return PyErr_NoMemory();
    }
    for (uint32_t unit = 0; recording && unit < regions[0].top; unit++) {
        uintptr_t page = regions[0].base + ((uintptr_t)unit << PAGE_SHIFT);
        uint32_t owner = region_owner(&regions[0], (const void *)page);
        if (owner < count) {
            pages[owner]++;
        }
    }
    PyObject *result =
        PyBytes_FromStringAndSize((const char *)pages, count * (Py_ssize_t)sizeof *pages);
    free(pages);
    return result;
}

PyDoc_STRVAR(sites_doc, "sites()\n--\n\n"
                        "The sites of a recording by number, from 1 on: (file, function, line).");
static PyObject *sites(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return sites_list();
}

PyDoc_STRVAR(copied_doc, "copied(leaf, /)\n--\n\n"
                         "A new object that equals a str, bytes, int, float or complex; or the "
                         "same, if the interpreter has only one of it.");
static PyObject *copied(PyObject *Py_UNUSED(module), PyObject *leaf)
{
    if (PyUnicode_CheckExact(leaf)) {
        /* Names are found by the identity of their string. */
        if (PyUnicode_CHECK_INTERNED(leaf)) {
            return Py_NewRef(leaf);
        }
        return PyUnicode_FromKindAndData((int)PyUnicode_KIND(leaf), PyUnicode_DATA(leaf),
                                         PyUnicode_GET_LENGTH(leaf));
    }
    if (PyBytes_CheckExact(leaf)) {
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(leaf), PyBytes_GET_SIZE(leaf));
    }
    if (PyFloat_CheckExact(leaf)) {
        return PyFloat_FromDouble(PyFloat_AS_DOUBLE(leaf));
    }
    if (PyComplex_CheckExact(leaf)) {
        return PyComplex_FromCComplex(PyComplex_AsCComplex(leaf));
    }
    if (PyLong_CheckExact(leaf)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(leaf, &overflow);
        if (overflow == 0) {
            return PyLong_FromLongLong(number);
        }
        PyObject *negative = PyNumber_Negative(leaf);
        PyObject *copy = negative != NULL ? PyNumber_Negative(negative) : NULL;
        Py_XDECREF(negative);
        return copy;
    }
    return Py_NewRef(leaf);
}

PyDoc_STRVAR(
    heaps_follow_doc,
    "heaps_follow(wanted, room, /)\n--\n\n"
    "Has the cold heap borrow fast memory, or make way for `wanted` bytes. The process may "
    "take at most `room` bytes more of fast memory; negative: nothing limits it. Returns "
    "the end of the addresses that prefer the fast nodes; 0 without nodes.");
static PyObject *heaps_follow(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_ssize_t wanted;
    long long room;
    if (!PyArg_ParseTuple(args, "nL:heaps_follow", &wanted, &room)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS lend_follow(wanted > 0 ? (size_t)wanted : 0, room);
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLongLong(lent_until());
}

PyDoc_STRVAR(heaps_swap_doc, "heaps_swap()\n--\n\n"
                             "Binds the heap that was on the slow nodes to the fast ones, and the "
                             "other to the slow ones, with their pages.");
static PyObject *heaps_swap(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int error = 0;
    if (bound) {
        Py_BEGIN_ALLOW_THREADS error = bind_heaps(1 - slow_heap, true);
        Py_END_ALLOW_THREADS
    }
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"heaps_start", heaps_begin, METH_VARARGS, heaps_start_doc},
    {"heap_of", heap_of, METH_O, heap_of_doc},
    {"heap_ranges", heap_ranges, METH_NOARGS, heap_ranges_doc},
    {"sites_of", sites_of, METH_O, sites_of_doc},
    {"site_pages", site_pages, METH_NOARGS, site_pages_doc},
    {"sites", sites, METH_NOARGS, sites_doc},
    {"copied", copied, METH_O, copied_doc},
    {"heaps_follow", heaps_follow, METH_VARARGS, heaps_follow_doc},
    {"heaps_swap", heaps_swap, METH_NOARGS, heaps_swap_doc},
    {NULL, NULL, 0, NULL},
};

int add_heaps(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
