/* The types that identify objects: a set of addresses with open addressing. The functions call no
 * Python. */
#ifndef TIERWISE_EMT_TYPES_H
#define TIERWISE_EMT_TYPES_H

#include "common.h"

struct types {
    uintptr_t *slots;
    size_t mask;
};

/* Fills the set with addresses of 8 bytes each. Returns 0, or an error number. */
int types_fill(struct types *types, const uint64_t *addresses, size_t count);
bool types_have(const struct types *types, uintptr_t address);
void types_clear(struct types *types);

#endif
