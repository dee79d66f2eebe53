// Measures the costs of the parts of page migration and hint faults, on the machine on which it
// runs.
// Build and run: gcc -O2 -pthread kernel_costs.c -o kernel_costs && ./kernel_costs
// Each figure is the best of nine rounds over 64 MiB of 4 KiB pages: the least disturbed one.
#define _GNU_SOURCE
#include <pthread.h>
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

// A page's entry in a list, as large as the kernel's struct page. 64 MiB of them describe 4 GiB.
struct entry {
    struct entry *prev, *next;
    char rest[48];
};

enum { ENTRIES = 1 << 20, BATCH = 32, WAKES = 1000 };

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

// CPU time of a thread that a timer wakes and that sleeps again at once.
static double wake(void)
{
    struct timespec pause = {0, 1000000};
    double before = cpu_ns();
    for (int i = 0; i < WAKES; i++)
        nanosleep(&pause, NULL);
    return (cpu_ns() - before) / WAKES;
}

static void link_at_head(struct entry *list, struct entry *e)
{
    e->next = list->next;
    e->prev = list;
    list->next->prev = e;
    list->next = e;
}

// Taking a page from the old end of a list whose pages lie anywhere, and putting it on another
// list, with a lock for each batch of 32 (SWAP_CLUSTER_MAX).
static double move_on_lists(struct entry *entries, const uint32_t *order)
{
    struct entry from = {&from, &from, ""}, to = {&to, &to, ""};
    pthread_spinlock_t lock;
    pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
    for (size_t i = 0; i < ENTRIES; i++)
        link_at_head(&from, &entries[order[i]]);
    double before = cpu_ns();
    for (size_t i = 0; i < ENTRIES; i++) {
        if (i % BATCH == 0)
            pthread_spin_lock(&lock);
        struct entry *e = from.prev;
        e->prev->next = &from;
        from.prev = e->prev;
        e->rest[0]++;
        link_at_head(&to, e);
        if (i % BATCH == BATCH - 1)
            pthread_spin_unlock(&lock);
    }
    return (cpu_ns() - before) / ENTRIES;
}

static uint32_t *shuffled(void)
{
    uint32_t *order = malloc(ENTRIES * sizeof(*order));
    uint64_t x = 1;
    if (!order) {
        perror("malloc");
        exit(1);
    }
    for (uint32_t i = 0; i < ENTRIES; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((x >> 33) % (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

static void scheduling_and_lists(void)
{
    struct entry *entries = calloc(ENTRIES, sizeof(*entries));
    uint32_t *order = shuffled();
    double woken = 1e18, moved = 1e18;
    if (!entries) {
        perror("calloc");
        exit(1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        double w = wake(), m = move_on_lists(entries, order);
        woken = w < woken ? w : woken;
        moved = m < moved ? m : moved;
    }
    printf("wake-up of a sleeping thread by a timer         %7.0f ns\n", woken);
    printf("move one page from a list to another, locked    %7.1f ns\n", moved);
    free(order);
    free(entries);
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
    scheduling_and_lists();
    return 0;
}
