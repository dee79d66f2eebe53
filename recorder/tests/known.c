/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program all of whose accesses to the reported pages are known: known SCENARIO REPORT [FILE].
 * Each line of REPORT names a region: "NAME ADDRESS". crates/tierwise-trace/tests/recorder.rs has
 * the accesses of each scenario and checks the recording.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL

static FILE *report;

static void print_address(const char *name, volatile void *address)
{
    fprintf(report, "%s %lu\n", name, (unsigned long)address);
    fflush(report);
}

static volatile uint64_t *map(void *at, unsigned long pages, int flags, int file)
{
    void *memory = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

static volatile uint64_t *anonymous(unsigned long pages)
{
    return map(NULL, pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* One store to each page. */
static void store_each(volatile uint64_t *memory, unsigned long pages)
{
    for (unsigned long page = 0; page < pages; page++)
        memory[page * PAGE / 8] = page;
}

/* One load from each page. */
static void load_each(volatile uint64_t *memory, unsigned long pages)
{
    for (unsigned long page = 0; page < pages; page++)
        (void)memory[page * PAGE / 8];
}

/* 100 pages: one store each, then three loads from every page. */
static void scenario_counts(void)
{
    volatile uint64_t *memory = anonymous(100);
    print_address("area", memory);
    store_each(memory, 100);
    for (int round = 0; round < 3; round++)
        load_each(memory, 100);
}

/* One store to each page, and as many loads as no other page has. */
static volatile uint64_t *area_of_loads(unsigned long pages, int loads)
{
    volatile uint64_t *memory = anonymous(pages);
    store_each(memory, pages);
    for (int round = 0; round < loads; round++)
        load_each(memory, pages);
    return memory;
}

/* Two areas, then one that fits in the place of the first, and one that does not. They are larger
 * than the gaps between libraries. */
static void scenario_layout(void)
{
    volatile uint64_t *first = area_of_loads(512, 501);
    area_of_loads(1024, 502);
    munmap((void *)first, 512 * PAGE);
    area_of_loads(256, 503);
    area_of_loads(2048, 504);
}

/* CPython's first words of an object, and the name of a type behind its size. */
struct object {
    uint64_t references;
    const struct type *type;
};
struct type {
    struct object head;
    uint64_t size;
    const char *name;
};

static const char type_name[] = "type", list_name[] = "list";

/*
 * Two types and three objects of the second in a page. The count of the first object changes 300
 * times, that of the second twice; the third has none. What looks like a count without a type
 * changes too.
 */
static void scenario_objects(void)
{
    volatile uint64_t *memory = anonymous(1);
    print_address("area", memory);
    volatile struct type *type = (volatile struct type *)memory;
    volatile struct type *list = (volatile struct type *)(memory + 8);
    volatile struct object *objects = (volatile struct object *)(memory + 16);
    /* The strings are memory of the program once they are read. */
    type->name = type_name + (type_name[0] != 't');
    list->name = list_name + (list_name[0] != 'l');
    type->head.type = list->head.type = (const struct type *)type;
    for (int i = 0; i < 3; i++)
        objects[i].type = (const struct type *)list;
    for (int i = 0; i < 300; i++)
        objects[0].references = 1 + i % 2;
    for (int i = 0; i < 2; i++)
        objects[1].references = 1 + i % 2;
    for (int i = 0; i < 10; i++)
        objects[3].references = 1 + i % 2;
}

/* One 8-byte store that crosses a line, and one that crosses a page. */
static void scenario_crossing(void)
{
    volatile char *memory = (volatile char *)anonymous(2);
    print_address("area", memory);
    *(volatile uint64_t *)(memory + 60) = 1;
    *(volatile uint64_t *)(memory + PAGE - 4) = 1;
}

/* 10 pages written, unmapped, mapped again at the same place and written again. */
static void scenario_unmap(void)
{
    volatile uint64_t *memory = anonymous(10);
    print_address("area", memory);
    store_each(memory, 10);
    munmap((void *)memory, 10 * PAGE);
    map((void *)memory, 10, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    store_each(memory, 10);
}

/* 300 pages written and unmapped, then 300 other pages written. */
static void scenario_reuse(void)
{
    volatile uint64_t *old = anonymous(300);
    volatile uint64_t *new = anonymous(300);
    print_address("old", old);
    print_address("new", new);
    store_each(old, 300);
    munmap((void *)old, 300 * PAGE);
    store_each(new, 300);
}

/* 10 pages written; the first 4 discarded, and the first 2 of them written again. */
static void scenario_discard(void)
{
    volatile uint64_t *memory = anonymous(10);
    print_address("area", memory);
    store_each(memory, 10);
    madvise((void *)memory, 4 * PAGE, MADV_DONTNEED);
    store_each(memory, 2);
}

/* 8 pages written, moved elsewhere, and each read there. */
static void scenario_move(void)
{
    volatile uint64_t *memory = anonymous(8);
    volatile uint64_t *target = anonymous(8);
    print_address("from", memory);
    print_address("to", target);
    store_each(memory, 8);
    mremap((void *)memory, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    load_each(target, 8);
}

/* The heap grows by 4 pages that are written, and shrinks by the upper 2. */
static void scenario_break(void)
{
    sbrk((intptr_t)(-(uintptr_t)sbrk(0) & (PAGE - 1)));
    volatile uint64_t *memory = sbrk(4 * PAGE);
    print_address("area", memory);
    store_each(memory, 4);
    sbrk(-2 * (intptr_t)PAGE);
}

/* A file of 4 pages, mapped privately (all read, the first then written) and shared (all written).
 */
static void scenario_file(const char *path)
{
    int file = open(path, O_RDWR);
    volatile uint64_t *private = map(NULL, 4, MAP_PRIVATE, file);
    volatile uint64_t *shared = map(NULL, 4, MAP_SHARED, file);
    print_address("private", private);
    print_address("shared", shared);
    load_each(private, 4);
    store_each(private, 1);
    store_each(shared, 4);
}

/* Two byte ranges of a file are read: pages 1 and 2 by pread, then page 0 by read, into other
 * pages.
 */
static void scenario_read(const char *path)
{
    int file = open(path, O_RDONLY);
    volatile uint64_t *buffer = anonymous(3);
    print_address("buffer", buffer);
    if (pread(file, (void *)buffer, 2 * PAGE, PAGE) != (ssize_t)(2 * PAGE))
        exit(1);
    if (read(file, (char *)buffer + 2 * PAGE, 100) != 100)
        exit(1);
    struct iovec parts[2] = {{(void *)buffer, 64}, {(char *)buffer + PAGE, 64}};
    int sink = open("/dev/null", O_WRONLY);
    if (writev(sink, parts, 2) != 128)
        exit(1);
}

static volatile uint64_t *areas[2];

static void *worker(void *number)
{
    volatile uint64_t *area = areas[(uintptr_t)number];
    for (int round = 0; round < 5000; round++)
        store_each(area, 20);
    return NULL;
}

/* Two threads: each 5000 stores to each of its 20 pages. */
static void scenario_threads(void)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++) {
        areas[i] = anonymous(20);
        print_address(i ? "second" : "first", areas[i]);
    }
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void *store_fifty(void *page)
{
    for (int round = 0; round < 50; round++)
        store_each(page, 1);
    return NULL;
}

/* Ten threads, one after the other, each with 50 stores to its own page. */
static void scenario_relay(void)
{
    volatile uint64_t *memory = anonymous(10);
    print_address("area", memory);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, store_fifty, (void *)(memory + i * PAGE / 8));
        pthread_join(thread, NULL);
    }
}

/* Four pages: the parent stores to each once, a forked child stores a thousand times. */
static void scenario_fork(void)
{
    volatile uint64_t *memory = anonymous(4);
    print_address("area", memory);
    if (fork() == 0) {
        for (int round = 0; round < 1000; round++)
            store_each(memory, 4);
        exit(0);
    }
    wait(NULL);
    store_each(memory, 4);
}

/* 1 MiB, a load from every line, twice over. */
static void scenario_sweep(void)
{
    volatile uint64_t *memory = anonymous(256);
    print_address("area", memory);
    for (int round = 0; round < 2; round++) {
        for (unsigned long line = 0; line < 256 * PAGE / 64; line++)
            (void)memory[line * 8];
    }
}

/* Closes every possible file descriptor and writes 5 pages. */
static void scenario_close(void)
{
    volatile uint64_t *memory = anonymous(5);
    print_address("area", memory);
    closefrom(0);
    store_each(memory, 5);
}

/* Writes 5 pages, reports them, and waits to be killed. */
static void scenario_wait(void)
{
    volatile uint64_t *memory = anonymous(5);
    store_each(memory, 5);
    print_address("area", memory);
    pause();
}

/* Reports its process id and writes the same 5 pages until it is killed. */
static void scenario_spin(void)
{
    volatile uint64_t *memory = anonymous(5);
    fprintf(report, "pid %d\n", (int)getpid());
    fflush(report);
    for (;;)
        store_each(memory, 5);
}

int main(int argc, char **argv)
{
    if (argc < 3 || !(report = fopen(argv[2], "w"))) {
        fputs("usage: known SCENARIO REPORT [FILE]\n", stderr);
        return 2;
    }
    const char *file = argc > 3 ? argv[3] : "";
    if (!strcmp(argv[1], "counts"))
        scenario_counts();
    else if (!strcmp(argv[1], "layout"))
        scenario_layout();
    else if (!strcmp(argv[1], "objects"))
        scenario_objects();
    else if (!strcmp(argv[1], "crossing"))
        scenario_crossing();
    else if (!strcmp(argv[1], "unmap"))
        scenario_unmap();
    else if (!strcmp(argv[1], "reuse"))
        scenario_reuse();
    else if (!strcmp(argv[1], "discard"))
        scenario_discard();
    else if (!strcmp(argv[1], "move"))
        scenario_move();
    else if (!strcmp(argv[1], "break"))
        scenario_break();
    else if (!strcmp(argv[1], "file"))
        scenario_file(file);
    else if (!strcmp(argv[1], "read"))
        scenario_read(file);
    else if (!strcmp(argv[1], "threads"))
        scenario_threads();
    else if (!strcmp(argv[1], "relay"))
        scenario_relay();
    else if (!strcmp(argv[1], "fork"))
        scenario_fork();
    else if (!strcmp(argv[1], "sweep"))
        scenario_sweep();
    else if (!strcmp(argv[1], "close"))
        scenario_close();
    else if (!strcmp(argv[1], "wait"))
        scenario_wait();
    else if (!strcmp(argv[1], "spin"))
        scenario_spin();
    else if (!strcmp(argv[1], "abort"))
        abort();
    else
        return 2;
    return 0;
}
