/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The current window: pages allocated, accessed and unmapped since the previous window was closed.
 * Callers of all functions hold the recorder's lock.
 */
#ifndef TIERWISE_WINDOW_H
#define TIERWISE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define PAGE_SHIFT 12
#define PAGE_BYTES (UINT64_C(1) << PAGE_SHIFT)
#define LINE_SHIFT 6
#define LINE_BYTES (UINT64_C(1) << LINE_SHIFT)
/* x86-64 and AArch64 give user space 47 and 48 bits; higher addresses are not memory of the
 * guest. */
#define ADDRESS_BITS 48

/* The first number of page-cache pages that system calls access. */
#define FILE_VPN_BASE (UINT64_C(1) << 52)
/* Each file has a range of 2^28 pages: 1 TiB. */
#define FILE_VPN_SHIFT 28

/* Prepares the page tables and the last-level cache; returns NULL or the error. */
const char *window_init(uint64_t llc_bytes, uint32_t llc_ways);

/* Counts one executed load or store of `bytes` bytes. */
void window_access(uint64_t address, unsigned bytes, bool store, uint16_t thread);

/* Counts the kernel's copy from or to a buffer of the program, by lines. */
void window_copy(uint64_t address, uint64_t bytes, bool store, uint16_t thread);

/* Counts the kernel's copy from or to the page cache: bytes [offset, offset + bytes) of a file. */
void window_file_copy(uint32_t file, uint64_t offset, uint64_t bytes, bool store, uint16_t thread);

/* Ends the pages of [start, end): a later touch allocates a new page. */
void window_unmap(uint64_t start, uint64_t end);

/* Ends every page, as executing another program does. */
void window_unmap_all(void);

/* Ends only the anonymous pages of [start, end), as MADV_DONTNEED does. */
void window_discard(uint64_t start, uint64_t end);

/* Moves the pages of [from, from + bytes) to another address; they stay the same pages. */
void window_move(uint64_t from, uint64_t to, uint64_t bytes);

/* Appends the lists of the window to a message and starts the next window. */
struct window_counts {
    uint32_t allocations, accesses, unmaps;
};
struct window_counts window_counts(void);
void window_take(struct wire_buffer *buffer);

/* Returns the number of pages allocated so far. */
uint32_t window_pages(void);

#endif
