/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From a virtual page number to the page that lives there now. */
#ifndef TIERWISE_PAGES_H
#define TIERWISE_PAGES_H

#include <stdint.h>

struct page_entry {
    uint32_t id_plus_one; /* 0: no page lives here */
    uint32_t row : 31;    /* where its counts of this window are, if that row names this page */
    uint32_t cow : 1; /* a private file page, which the first store replaces by an anonymous one */
};

/* The entry of a page; made on demand. Mapped and file pages alike. */
struct page_entry *pages_entry(uint64_t vpn);

/* Calls `visit` for every living page of [first, last), skipping unused parts of the table. */
void pages_visit(uint64_t first, uint64_t last,
                 void (*visit)(struct page_entry *entry, uint64_t vpn, void *data), void *data);

/* Calls `visit` for every living page that is reached through system calls only. */
void pages_visit_files(void (*visit)(struct page_entry *entry, uint64_t vpn, void *data),
                       void *data);

#endif
