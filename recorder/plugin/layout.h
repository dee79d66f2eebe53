/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The addresses that the kernel would give to mappings. The emulator maps upwards from one address,
 * and the kernel downwards from below the stack, in the highest gap (unmapped_area_topdown). So the
 * arrays of a program have the opposite order in the emulator, and whoever walks memory by address,
 * as a daemon does, meets them the other way round.
 */
#ifndef TIERWISE_LAYOUT_H
#define TIERWISE_LAYOUT_H

#include <stdint.h>

/* Reports the kernel's addresses from now on. Without it, all functions do nothing. */
void layout_follow_kernel(void);

/* Places a mapping at [start, start + bytes) whose address the program left open. */
void layout_map(uint64_t start, uint64_t bytes);

/* Frees the places of what is mapped in [start, start + bytes). */
void layout_unmap(uint64_t start, uint64_t bytes);

/* Returns the address to report of an address of the guest: the same if it is in no mapping with a
 * place. */
uint64_t layout_address(uint64_t address);

#endif
