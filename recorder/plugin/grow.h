/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Growing arrays. If memory is exhausted, the plugin reports it and stops the guest. */
#ifndef TIERWISE_GROW_H
#define TIERWISE_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Prints "tierwise recorder: ..." to stderr and ends the process with status 125, as env(1) does.
 */
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *checked_calloc(size_t count, size_t size);
void *grown(void *array, size_t *capacity, size_t wanted, size_t size);

/* Grows `array` to at least `wanted` elements. */
#define GROW(array, capacity, wanted)                                                              \
    do {                                                                                           \
        if ((wanted) > (capacity))                                                                 \
            (array) = grown((array), &(capacity), (wanted), sizeof *(array));                      \
    } while (0)

#endif
