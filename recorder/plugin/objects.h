/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects of a CPython program, and how often their reference counts change: what EMT infers
 * hotness from. Callers of all functions hold the recorder's lock.
 */
#ifndef TIERWISE_OBJECTS_H
#define TIERWISE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* Follows objects from now on. */
void objects_follow(void);
bool objects_followed(void);

/* A store of `bytes` bytes to a page that is mapped. */
void objects_store(uint32_t page, uint64_t address, unsigned bytes);

/* A page has moved to another address, or has ended. */
void objects_move(uint32_t page, uint64_t vpn);
void objects_end(uint32_t page);

/* Takes a sample of all objects: appends the hotness of every page with one that changed lately.
 * Returns the number of such pages, and that of all objects in `live`. */
uint32_t objects_take(struct wire_buffer *buffer, uint32_t *live);

#endif
