/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions and accesses of each guest thread since its last check.
 *
 * A thread stores its accesses in its own ring, without a lock. The holder of the recorder's lock
 * may move any thread's ring into the window: the owner does so when its ring is full, and any
 * thread does so before it unmaps a page or closes a window. A page's accesses therefore always
 * precede its unmap, and counts are exact. Only the order between threads within a ring's length is
 * lost.
 */
#ifndef TIERWISE_THREADS_H
#define TIERWISE_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* 8 KiB per thread: long enough to make the lock's cost small, short enough to stay in the
 * first-level cache. */
#define RING 1024
#define UNNUMBERED UINT32_MAX

struct thread {
    _Atomic uint64_t head;         /* accesses noted; written by the owner only */
    _Atomic uint64_t tail;         /* accesses taken; written under the lock only */
    _Atomic uint64_t instructions; /* executed; written by the owner only */
    uint64_t check_at;     /* instructions at which the owner checks whether the window is full */
    uint64_t window_start; /* instructions when the window started; under the lock */
    uint32_t number;       /* index in the trace; under the lock */
    uint64_t syscall[6];   /* arguments of the system call under way; owner only */
    /* address << 8 | log2 of the bytes << 1 | is a store */
    uint64_t ring[RING];
};

/* Returns the thread of a virtual CPU of QEMU. */
struct thread *thread_of(unsigned vcpu);

/* Registers that a virtual CPU starts another guest thread. The caller holds the lock. */
void thread_begin(unsigned vcpu);

/* Moves a ring's accesses into the window. The caller holds the lock. */
void thread_drain(struct thread *thread);
void threads_drain(void);

/* Returns the thread's index in the trace, assigned at first use. The caller holds the lock. */
uint16_t thread_number(struct thread *thread);

/* Returns the instructions of all threads in this window. The caller holds the lock. */
uint64_t threads_instructions(void);

/* Calls `visit` with each thread's instructions of this window, and starts the next window. The
 * caller holds the lock.
 */
void threads_take(void (*visit)(uint32_t thread, uint64_t instructions, void *data), void *data);

/* Returns the number of virtual CPUs so far; at least 1. */
unsigned threads_seen(void);

#endif
