/* The program's private anonymous memory, from /proc/self/maps. The functions call no Python. */
#ifndef TIERWISE_EMT_RANGES_H
#define TIERWISE_EMT_RANGES_H

#include "common.h"

struct range {
    uintptr_t start, end;
};

struct ranges {
    struct range *all; /* by address, none empty */
    size_t count, room;
};

/* Reads the ranges again. Returns 0, or an error number. */
int ranges_read(struct ranges *ranges);
void ranges_clear(struct ranges *ranges);

#endif
