/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Shared by the lab's guest programs: failure messages, the clock, random numbers, memory on a
 * node. */
#ifndef TIERWISE_LAB_COMMON_H
#define TIERWISE_LAB_COMMON_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_BYTES 4096UL
#define MIB (1UL << 20)
/* Pages per call: 48 KiB of arguments, which stay in the caches of the first two levels. */
#define PAGES_PER_CALL 4096

/* The kernel's own numbers (linux/mempolicy.h). */
enum { MEMPOLICY_DEFAULT = 0, MEMPOLICY_BIND = 2 };

/* Ends the program with status 2, which reports a user's mistake everywhere in Tierwise. */
static inline _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

/* Parses a number of the command line, at least `least`. */
static inline long number_of(const char *name, const char *text, long least)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 0);
    if (errno || end == text || *end != '\0' || value < least)
        fail("%s: '%s' is not a number of %ld or more", name, text, least);
    return value;
}

/* Seconds of the guest's monotonic clock. */
static inline double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Marsaglia's xorshift64: three instructions between two accesses. The state must not be 0. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#define RANDOM_SEED UINT64_C(88172645463325252) /* Marsaglia's own example */

/* Binds the next allocations of this program to a node; a negative node restores the kernel's
 * default.
 */
static inline void bind_to(int node)
{
    unsigned long mask = node < 0 ? 0 : 1UL << node;
    long result = node < 0 ? syscall(SYS_set_mempolicy, MEMPOLICY_DEFAULT, NULL, 0UL)
                           : syscall(SYS_set_mempolicy, MEMPOLICY_BIND, &mask, 8 * sizeof mask);
    if (result != 0)
        fail("set_mempolicy for node %d: %s", node, strerror(errno));
}

/* Allocates anonymous memory, aligned to 2 MiB, and touches every page while bound to `node`
 * (negative: the kernel chooses). It uses huge pages only if requested. */
static inline char *allocate(size_t bytes, int node, int huge)
{
    size_t alignment = 2 * MIB;
    char *raw =
        mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        fail("mmap of %zu bytes: %s", bytes, strerror(errno));
    char *memory = (char *)(((uintptr_t)raw + alignment - 1) & ~(alignment - 1));
    madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    if (node >= 0)
        bind_to(node);
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        memory[at] = (char)(at / PAGE_BYTES + 1);
    if (node >= 0)
        bind_to(-1);
    return memory;
}

#endif
