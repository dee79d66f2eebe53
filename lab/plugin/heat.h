/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The misses of user programs by virtual page. The counts by physical page do not tell them,
 * because pages move.
 *
 * At the guest's request they become a curve: the misses of the hottest pages, for each number of
 * pages. A placement that knew the misses in advance would have served that many from fast memory.
 * The table has no lock: it is for guests with one vCPU.
 */
#ifndef TIERWISE_HEAT_H
#define TIERWISE_HEAT_H

#include <stdint.h>

/* Counts a miss at an address of a user program. */
void heat_count(uint64_t address);

/* Answers the guest's request, if it has made one, and starts to count from zero again. */
void heat_answer(void);

#endif
