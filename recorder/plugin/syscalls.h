/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The effects of system calls on pages: they map and unmap memory, and the kernel copies data for
 * the program. */
#ifndef TIERWISE_SYSCALLS_H
#define TIERWISE_SYSCALLS_H

#include <stdint.h>

struct thread;

/* Runs before the kernel executes the call. The caller holds the recorder's lock and has drained
 * all threads. */
void syscall_enter(struct thread *thread, int64_t number);

/* Runs after the call; `result` is negative for an error. The caller holds the lock and has drained
 * all threads. */
void syscall_leave(struct thread *thread, int64_t number, int64_t result);

/* Returns true if a call has any effect here, so that other calls cost nothing. */
int syscall_matters(int64_t number);

#endif
