/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Feeds line numbers from standard input to the cache model: cache BYTES WAYS LINE_BYTES. Prints
 * one character for each: M for a miss, h for a hit.
 */
#include <inttypes.h>
#include <stdio.h>

#include "../common/cache_model.h"

int main(int argc, char **argv)
{
    struct cache_model cache;
    if (argc != 4)
        return 2;
    const char *wrong =
        cache_model_init(&cache, strtoull(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10),
                         (uint32_t)strtoul(argv[3], NULL, 10));
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        return 1;
    }
    uint64_t line;
    while (scanf("%" SCNu64, &line) == 1)
        putchar(cache_model_access(&cache, line) ? 'M' : 'h');
    return 0;
}
