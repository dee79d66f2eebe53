#include "types.h"

#include <errno.h>
#include <stdlib.h>

/* Returns the slot of an address, or the empty slot where it belongs. Types are aligned to 16
 * bytes. */
static size_t slot_of(const struct types *types, uintptr_t address)
{
    size_t at = (address >> 4) & types->mask;
    while (types->slots[at] != 0 && types->slots[at] != address) {
        at = (at + 1) & types->mask;
    }
    return at;
}

int types_fill(struct types *types, const uint64_t *addresses, size_t count)
{
    /* At most a quarter of the slots is filled, so that most searches end at their first slot. */
    size_t room = 64;
    while (room < count * 4) {
        room *= 2;
    }
    types->slots = calloc(room, sizeof *types->slots);
    types->mask = room - 1;
    for (size_t n = 0; types->slots != NULL && n < count; n++) {
        types->slots[slot_of(types, addresses[n])] = addresses[n];
    }
    return types->slots == NULL ? ENOMEM : 0;
}

bool types_have(const struct types *types, uintptr_t address)
{
    return address != 0 && types->slots[slot_of(types, address)] == address;
}

void types_clear(struct types *types)
{
    free(types->slots);
    types->slots = NULL;
}
