/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions and accesses of each guest thread since its last check.
 *
 * A thread notes its accesses in a ring of its own, without a lock. Whoever holds the recorder's
 * lock may move any thread's ring into the window: the owner when its ring is full, and anyone
 * before a page is unmapped or a window is closed. So a page's accesses always come before its
 * unmap, counts are exact, and only the order between threads within a ring's length is not kept.
 */
#ifndef TIERWISE_THREADS_H
#define TIERWISE_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* 8 KiB a thread: long enough to make the lock cheap, short enough to stay in the first-level
 * cache. */
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

/* The thread of a virtual CPU of QEMU. */
struct thread *thread_of(unsigned vcpu);

/* A virtual CPU starts to run another guest thread. Under the lock. */
void thread_begin(unsigned vcpu);

/* Moves noted accesses into the window. Under the lock. */
void thread_drain(struct thread *thread);
void threads_drain(void);

/* The thread's index in the trace, assigned at first use. Under the lock. */
uint16_t thread_number(struct thread *thread);

/* Instructions of all threads in this window. Under the lock. */
uint64_t threads_instructions(void);

/* Calls `visit` with each thread's instructions of this window and starts the next. Under the lock.
 */
void threads_take(void (*visit)(uint32_t thread, uint64_t instructions, void *data), void *data);

/* The number of virtual CPUs so far; at least 1. */
unsigned threads_seen(void);

#endif
