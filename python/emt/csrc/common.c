#include "common.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

static int64_t clock_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

int64_t thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void *untracked_alloc(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void untracked_free(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, bytes);
    }
}

static unsigned depth;

static void in_child(void)
{
    depth++;
}

unsigned fork_depth(void)
{
    return depth;
}

int watch_forks(void)
{
    static bool watched;
    int error = watched ? 0 : pthread_atfork(NULL, NULL, in_child);
    watched |= error == 0;
    return error;
}
