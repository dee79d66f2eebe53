/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest has the host's architecture and its addresses are the host's, so the system call
 * numbers and structures are those of the headers here and can be read in place.
 */
#define _GNU_SOURCE
#include "syscalls.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "files.h"
#include "layout.h"
#include "mappings.h"
#include "threads.h"
#include "window.h"

#ifndef MADV_FREE
#define MADV_FREE 8
#endif

static uint64_t program_break;

int syscall_matters(int64_t number)
{
    switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_brk:
    case SYS_madvise:
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_sendfile:
    case SYS_copy_file_range:
    case SYS_recvfrom:
    case SYS_sendto:
    case SYS_recvmsg:
    case SYS_sendmsg:
        return 1;
    default:
        return 0;
    }
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

void syscall_enter(struct thread *thread, int64_t number)
{
    const uint64_t *a = thread->syscall;
    /* Pages are unmapped before the kernel frees the addresses, which another thread may get at
     * once. */
    switch (number) {
    case SYS_munmap:
        window_unmap(a[0], a[0] + a[1]);
        mappings_set(a[0], a[0] + a[1], MAPPING_ANON);
        layout_unmap(a[0], whole_pages(a[1]));
        break;
    case SYS_madvise:
        if (a[2] == MADV_DONTNEED || a[2] == MADV_FREE)
            window_discard(a[0], a[0] + a[1]);
        else if (a[2] == MADV_REMOVE)
            window_unmap(a[0], a[0] + a[1]);
        break;
    case SYS_mmap:
        if (a[3] & MAP_FIXED)
            window_unmap(a[0], a[0] + a[1]);
        break;
    default:
        break;
    }
}

static enum mapping kind_of_mmap(const uint64_t *a)
{
    if ((a[3] & MAP_ANONYMOUS) || files_is_anonymous((int)a[4]))
        return MAPPING_ANON;
    return (a[3] & MAP_TYPE) == MAP_PRIVATE ? MAPPING_FILE_PRIVATE : MAPPING_FILE_SHARED;
}

static void leave_mmap(const uint64_t *a, uint64_t start)
{
    uint64_t end = start + whole_pages(a[1]);
    /* The new range was free before, perhaps by a call that is not followed (shmdt). With MAP_FIXED
       the old pages were removed on entry, and other threads may have touched the new ones. */
    if (!(a[3] & MAP_FIXED))
        window_unmap(start, end);
    mappings_set(start, end, kind_of_mmap(a));
    /* With an address of its own a mapping is where it asks to be, or in a reserved one. */
    if (a[0] == 0)
        layout_map(start, end - start);
}

static void leave_mremap(const uint64_t *a, uint64_t to)
{
    uint64_t from = a[0], old_bytes = whole_pages(a[1]), new_bytes = whole_pages(a[2]);
    uint64_t kept = old_bytes < new_bytes ? old_bytes : new_bytes;
    enum mapping kind = mappings_kind(from);
    window_unmap(from + kept, from + old_bytes);
    layout_unmap(from + kept, old_bytes - kept);
    if (to != from) {
        window_unmap(to, to + new_bytes);
        window_move(from, to, kept);
        mappings_set(from, from + old_bytes, MAPPING_ANON);
    }
    /* There is hardly ever room above a mapping that the kernel has placed: what grows moves. Pages
     * that exist keep the address of their first touch. */
    if (to != from || new_bytes > old_bytes) {
        layout_unmap(from, old_bytes);
        layout_map(to, new_bytes);
    }
    mappings_set(to, to + new_bytes, kind);
}

static void leave_brk(uint64_t now)
{
    if (now < program_break)
        window_unmap(whole_pages(now), program_break);
    program_break = now;
}

/* Counts the file's side of a transfer of `bytes`; offset -1 means the descriptor's own
 * position. */
static void file_side(int descriptor, int64_t offset, uint64_t bytes, bool store, uint16_t thread)
{
    uint32_t file;
    if (bytes == 0 || !files_number(descriptor, &file))
        return;
    if (offset < 0)
        offset = lseek(descriptor, 0, SEEK_CUR) - (int64_t)bytes;
    if (offset >= 0)
        window_file_copy(file, (uint64_t)offset, bytes, store, thread);
}

/* Counts the program's side of a transfer whose buffers are a list. */
static void buffers_side(uint64_t list, uint64_t entries, uint64_t bytes, bool store,
                         uint16_t thread)
{
    const struct iovec *buffer = (const struct iovec *)list;
    for (uint64_t i = 0; i < entries && bytes > 0; i++) {
        uint64_t part = buffer[i].iov_len < bytes ? buffer[i].iov_len : bytes;
        window_copy((uint64_t)buffer[i].iov_base, part, store, thread);
        bytes -= part;
    }
}

static void leave_sendfile(const uint64_t *a, uint64_t bytes, uint16_t thread)
{
    int64_t offset = a[2] ? *(const int64_t *)a[2] - (int64_t)bytes : -1;
    file_side((int)a[1], offset, bytes, false, thread);
    file_side((int)a[0], -1, bytes, true, thread);
}

static void leave_copy_file_range(const uint64_t *a, uint64_t bytes, uint16_t thread)
{
    int64_t in = a[1] ? *(const int64_t *)a[1] - (int64_t)bytes : -1;
    int64_t out = a[3] ? *(const int64_t *)a[3] - (int64_t)bytes : -1;
    file_side((int)a[0], in, bytes, false, thread);
    file_side((int)a[2], out, bytes, true, thread);
}

/* Reads: the kernel loads the page cache and stores to the program. Writes: it loads from the
 * program and stores to the page cache. */
static void leave_transfer(const uint64_t *a, int64_t number, uint64_t bytes, uint16_t thread)
{
    const struct msghdr *message = (const struct msghdr *)a[1];
    switch (number) {
    case SYS_read:
    case SYS_pread64:
    case SYS_recvfrom:
        file_side((int)a[0], number == SYS_pread64 ? (int64_t)a[3] : -1, bytes, false, thread);
        window_copy(a[1], bytes, true, thread);
        break;
    case SYS_write:
    case SYS_pwrite64:
    case SYS_sendto:
        window_copy(a[1], bytes, false, thread);
        file_side((int)a[0], number == SYS_pwrite64 ? (int64_t)a[3] : -1, bytes, true, thread);
        break;
    case SYS_readv:
    case SYS_preadv:
    case SYS_preadv2:
        file_side((int)a[0], number == SYS_readv ? -1 : (int64_t)a[3], bytes, false, thread);
        buffers_side(a[1], a[2], bytes, true, thread);
        break;
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
        buffers_side(a[1], a[2], bytes, false, thread);
        file_side((int)a[0], number == SYS_writev ? -1 : (int64_t)a[3], bytes, true, thread);
        break;
    case SYS_recvmsg:
    case SYS_sendmsg:
        buffers_side((uint64_t)message->msg_iov, message->msg_iovlen, bytes, number == SYS_recvmsg,
                     thread);
        break;
    default:
        break;
    }
}

void syscall_leave(struct thread *thread, int64_t number, int64_t result)
{
    const uint64_t *a = thread->syscall;
    /* The kernel's errors are -4095..-1; no other result of mmap has the sign bit. */
    if (result < 0 && result >= -4095)
        return;
    uint16_t index = thread_number(thread);
    switch (number) {
    case SYS_mmap:
        leave_mmap(a, (uint64_t)result);
        break;
    case SYS_mremap:
        leave_mremap(a, (uint64_t)result);
        break;
    case SYS_brk:
        leave_brk((uint64_t)result);
        break;
    case SYS_sendfile:
        leave_sendfile(a, (uint64_t)result, index);
        break;
    case SYS_copy_file_range:
        leave_copy_file_range(a, (uint64_t)result, index);
        break;
    default:
        leave_transfer(a, number, (uint64_t)result, index);
        break;
    }
}
