// Measures the costs of the parts of page migration and hint faults, on the machine on which it
// runs.
// Build and run: gcc -O2 kernel_costs.c -o kernel_costs && ./kernel_costs
// Each figure is the best of nine rounds over 64 MiB of 4 KiB pages: the least disturbed one.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 16384, ROUNDS = 9 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static char *map(void)
{
    char *p = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(p, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    return p;
}

static void touch(char *p)
{
    for (size_t i = 0; i < PAGES; i++)
        p[i * PAGE] = 1;
}

int main(void)
{
    double fault = 1e18, protect_range = 1e18, protect_one = 1e18, copy = 1e18, zap = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        char *a = map(), *b = map();
        double t0 = now_ns();
        touch(a);
        double t1 = now_ns();
        touch(b);
        double t2 = now_ns();
        for (size_t i = 0; i < PAGES; i++)
            memcpy(b + i * PAGE, a + (PAGES - 1 - i) * PAGE, PAGE);
        double t3 = now_ns();
        mprotect(a, (size_t)PAGES * PAGE, PROT_READ);
        double t4 = now_ns();
        for (size_t i = 0; i < PAGES; i += 2)
            mprotect(b + i * PAGE, PAGE, PROT_NONE);
        double t5 = now_ns();
        madvise(a, (size_t)PAGES * PAGE, MADV_DONTNEED);
        double t6 = now_ns();
        (void)t1;
        if ((t1 - t0) / PAGES < fault)
            fault = (t1 - t0) / PAGES;
        if ((t3 - t2) / PAGES < copy)
            copy = (t3 - t2) / PAGES;
        if ((t4 - t3) / PAGES < protect_range)
            protect_range = (t4 - t3) / PAGES;
        if ((t5 - t4) / (PAGES / 2) < protect_one)
            protect_one = (t5 - t4) / (PAGES / 2);
        if ((t6 - t5) / PAGES < zap)
            zap = (t6 - t5) / PAGES;
        munmap(a, (size_t)PAGES * PAGE);
        munmap(b, (size_t)PAGES * PAGE);
    }
    printf("minor fault of one page (allocate, zero, map)   %7.0f ns\n", fault);
    printf("copy of one page from cold memory               %7.0f ns\n", copy);
    printf("change protection, a range, a page              %7.1f ns\n", protect_range);
    printf("change protection, one page at a time, with TLB %7.0f ns\n", protect_one);
    printf("zap and free one page of a range                %7.1f ns\n", zap);
    return 0;
}
