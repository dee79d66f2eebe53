/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The effects of system calls on pages: mappings appear and vanish, the kernel copies for the
 * program. */
#ifndef TIERWISE_SYSCALLS_H
#define TIERWISE_SYSCALLS_H

#include <stdint.h>

struct thread;

/* Before the kernel acts. Under the recorder's lock, all threads drained. */
void syscall_enter(struct thread *thread, int64_t number);

/* After it acted; `result` is negative for an error. Under the lock, all threads drained. */
void syscall_leave(struct thread *thread, int64_t number, int64_t result);

/* True if a call has any effect here, so that the others cost nothing. */
int syscall_matters(int64_t number);

#endif
