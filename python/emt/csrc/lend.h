/* Lends the cold heap fast memory that nothing hotter uses.
 *
 * The first part of the cold heap's addresses prefers the fast nodes, the rest the slow ones. The
 * part grows with the heap while the fast nodes have more free memory than a reserve. When the hot
 * heap or the interpreter's other memory grows into the reserve, its end moves to the slow nodes.
 * One boundary, and no list of ranges: so the kernel has two mappings, however often it moves.
 *
 * No function but the first needs the interpreter's lock. A call that finds another at work leaves
 * the decision to that one. */
#ifndef TIERWISE_EMT_LEND_H
#define TIERWISE_EMT_LEND_H

#include "common.h"

/* Called once, with the interpreter's lock. `reserve` bytes of the nodes `fast` stay free. */
void lend_start(uint64_t fast, uint64_t slow, uint64_t reserve);

/* Binds `bytes` of addresses from `cold` to the slow nodes, and as many from `hot` to the fast
 * ones, with the pages that are there if `move`. From now on the cold heap borrows; its addresses
 * in use end at `end`. Returns 0, or an error number. */
int lend_to(uintptr_t cold, uintptr_t end, uintptr_t hot, size_t bytes, bool move);

/* The cold heap will use addresses up to `end`, and more than before. */
void lend_cold_grows(uintptr_t end);

/* Other memory of the process grows by so many bytes: makes way for it if fast memory is short.
 * Counts small growth, and examines it together. */
void lend_others_grow(size_t bytes);

/* Follows the free memory both ways, and makes way for `wanted` bytes. `room`: the process may take
 * at most so many bytes more of the fast nodes; negative: nothing limits it. */
void lend_follow(size_t wanted, int64_t room);

/* The end of the addresses of the cold heap that prefer the fast nodes; 0 without nodes. */
uintptr_t lent_until(void);

#endif
