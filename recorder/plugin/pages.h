/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table from a virtual page number to the current page. */
#ifndef TIERWISE_PAGES_H
#define TIERWISE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct page_entry {
    uint32_t id_plus_one; /* 0: no page */
    uint32_t row : 31;    /* row of its counts in this window, if that row names this page */
    uint32_t cow : 1; /* a private file page, which the first store replaces by an anonymous one */
};

/* Returns the entry of a mapped page or file page, and creates it on demand. */
struct page_entry *pages_entry(uint64_t vpn);

/* Whether there is a mapped page; creates nothing. */
bool pages_exist(uint64_t vpn);

/* Calls `visit` for every existing page of [first, last), and skips unused parts of the table. */
void pages_visit(uint64_t first, uint64_t last,
                 void (*visit)(struct page_entry *entry, uint64_t vpn, void *data), void *data);

/* Calls `visit` for every existing page that only system calls access. */
void pages_visit_files(void (*visit)(struct page_entry *entry, uint64_t vpn, void *data),
                       void *data);

#endif
