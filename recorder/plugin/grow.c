/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

_Noreturn void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tierwise recorder: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(125);
}

void *checked_calloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        fatal("out of memory (%zu bytes)", count * size);
    return memory;
}

void *grown(void *array, size_t *capacity, size_t wanted, size_t size)
{
    size_t larger = *capacity ? *capacity * 2 : 64;
    if (larger < wanted)
        larger = wanted;
    void *memory = realloc(array, larger * size);
    if (!memory)
        fatal("out of memory (%zu bytes)", larger * size);
    *capacity = larger;
    return memory;
}
