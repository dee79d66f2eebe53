/* Hooks of CPython's allocators: new blocks come from the cold or the hot heap where the program
 * asked for it, and each block returns to the heap that it came from, which its address shows.
 *
 * The hooks are those of the domains OBJ and MEM, whose callers hold the interpreter's lock, and of
 * RAW (PyMem_SetAllocator). hooking.h sets them. */
#ifndef TIERWISE_EMT_HOOKS_H
#define TIERWISE_EMT_HOOKS_H

#include "common.h"

enum { MEM, OBJ, RAW, DOMAINS };

/* The hooks of each domain, without a context. */
extern const PyMemAllocatorEx hooks[DOMAINS];

/* The allocators below the hooks. */
extern PyMemAllocatorEx original[DOMAINS];

/* This thread's next `malloc` of MEM or OBJ while nothing asks only shows that the hook is there:
 * it ends this and returns NULL. */
extern _Thread_local bool probing __attribute__((tls_model("initial-exec")));

/* From here on pymalloc leaves a request to the domain RAW. */
#define PYMALLOC_MAX 512

/* pymalloc leaves what it did not allocate to the domain RAW, as it does with blocks of more than
 * 512 bytes. So a heap's blocks pass as blocks of RAW: then freeing a small block of the program's
 * costs nothing more, and pymalloc's count of blocks stays right. With another allocator MEM and
 * OBJ examine each address. */
extern bool through_raw;

#endif
