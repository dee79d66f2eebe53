/* Declarations that every file of the extension uses. */
#ifndef TIERWISE_EMT_COMMON_H
#define TIERWISE_EMT_COMMON_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unit of all page counts: the kernel's page on x86-64 and most arm64; module.c refuses other
 * sizes. */
#define PAGE_SHIFT 12
#define PAGE_BYTES ((uintptr_t)1 << PAGE_SHIFT)

/* Nanoseconds of CPU time of the calling thread. */
int64_t thread_cpu_ns(void);

/* Nanoseconds of a monotonic clock. */
int64_t monotonic_ns(void);

/* Memory that the trackers ignore: shared mappings are not part of the private memory that they
 * monitor. NULL: no memory. */
void *untracked_alloc(size_t bytes);
void untracked_free(void *memory, size_t bytes);

/* The number of forks between this process and the one that loaded the extension. A process id does
 * not distinguish them: a child in a PID namespace of its own may have its parent's. */
unsigned fork_depth(void);
/* 0, or an error number; called once, when the extension is loaded. */
int watch_forks(void);

/* Adds the types and functions of a file to the module; -1 with an exception set. */
int add_table(PyObject *module);
int add_tracker(PyObject *module);
int add_moves(PyObject *module);
int add_buffers(PyObject *module);
int add_storage(PyObject *module);
int add_numpy_memory(PyObject *module);
int add_heaps(PyObject *module);
int add_block(PyObject *module);
int add_recording(PyObject *module);
int add_copied(PyObject *module);

#endif
