/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The address ranges of mapped files. Everything else is anonymous memory. */
#ifndef TIERWISE_MAPPINGS_H
#define TIERWISE_MAPPINGS_H

#include <stdint.h>

enum mapping {
    MAPPING_ANON,
    MAPPING_FILE_PRIVATE, /* the first store to a page copies it into anonymous memory */
    MAPPING_FILE_SHARED,
};

/* Declares [start, end) to be of this kind, and replaces earlier declarations. Addresses are in
 * bytes. */
void mappings_set(uint64_t start, uint64_t end, enum mapping kind);

/* Returns the mapping of the page at this address. */
enum mapping mappings_kind(uint64_t address);

/* Reads the existing mappings: those of the program file and its loader. */
void mappings_read_initial(void);

#endif
