/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * stairs OPTION=VALUE...: a program whose hot memory is known, after masim (SeongJae Park): it
 * allocates one region and accesses a part of it, which moves from phase to phase.
 *
 *   mib=N            the region (needed)
 *   hot_mib=N        its hot part (needed)
 *   pattern=stairs   stairs: one hot part further each phase, from the start again after the last;
 *           zigzag   up to the last and down again; fixed: always at hot_at_mib
 *   hot_at_mib=N     where the hot part is in the first phase (0)
 *   order=random     random | sequential: how the hot part is accessed, a line at a time
 *   stores=N         stores of 100 accesses (0)
 *   cold=N           of 1000 accesses, those anywhere in the region (0)
 *   phase_s=N        seconds of a phase (10)
 *   operations=N     accesses of a phase instead of its seconds: the run time is then the result
 *   phases=N         number of phases; 0 runs until it is ended (0)
 *   node=N           the region's first node (by default the kernel chooses)
 *   huge=1           of huge pages
 *   shared=FILE      the memory of this file, which programs with the same option share
 *   lock=1           mlocked
 *   pause_us=N       sleep for N us after every 10,000 accesses (0)
 *   forget=1         drop all TLB entries after every 10,000 accesses: an emulated CPU's TLB holds
 *           tens of thousands, and the CPU marks a page accessed only when it fills an entry
 *   report=FILE      the truth: pid, region, hot part; replaced as a whole when a phase starts
 *
 * It prints a JSON line at the end of a phase: its hot part, accesses done, seconds, and a checksum
 * of the data read so far, which depends only on the options if they have operations=.
 */
#include <fcntl.h>

#include "common.h"

/* Accesses between two readings of the clock: some 100 us under emulation. */
#define BURST 10000
#define LINE_BYTES 64UL

enum pattern { STAIRS, ZIGZAG, FIXED };

struct options {
    long mib, hot_mib, hot_at_mib, stores, cold, phase_s, operations, phases, node, huge, lock,
        pause_us, forget;
    enum pattern pattern;
    int sequential;
    const char *report, *shared;
};

struct region {
    char *memory;
    size_t bytes, hot_bytes, hot_at;
};

static const char *const pattern_names[] = {"stairs", "zigzag", "fixed"};

static enum pattern pattern_of(const char *value)
{
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, pattern_names[i]) == 0)
            return (enum pattern)i;
    }
    fail("pattern: '%s' is not one of stairs, zigzag, fixed", value);
}

static int is_sequential(const char *value)
{
    if (strcmp(value, "sequential") != 0 && strcmp(value, "random") != 0)
        fail("order: '%s' is not one of sequential, random", value);
    return strcmp(value, "sequential") == 0;
}

static void read_option(struct options *options, char *word)
{
    struct {
        const char *name;
        long *value, least;
    } numbers[] = {{"mib", &options->mib, 1},
                   {"hot_mib", &options->hot_mib, 1},
                   {"hot_at_mib", &options->hot_at_mib, 0},
                   {"stores", &options->stores, 0},
                   {"cold", &options->cold, 0},
                   {"phase_s", &options->phase_s, 1},
                   {"operations", &options->operations, 1},
                   {"phases", &options->phases, 0},
                   {"node", &options->node, 0},
                   {"huge", &options->huge, 0},
                   {"lock", &options->lock, 0},
                   {"pause_us", &options->pause_us, 0},
                   {"forget", &options->forget, 0}};
    char *value = strchr(word, '=');
    if (!value)
        fail("'%s' is no option: OPTION=VALUE is expected, for example mib=64", word);
    *value++ = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(word, numbers[i].name) == 0) {
            *numbers[i].value = number_of(word, value, numbers[i].least);
            return;
        }
    }
    if (strcmp(word, "pattern") == 0)
        options->pattern = pattern_of(value);
    else if (strcmp(word, "order") == 0)
        options->sequential = is_sequential(value);
    else if (strcmp(word, "report") == 0)
        options->report = value;
    else if (strcmp(word, "shared") == 0)
        options->shared = value;
    else
        fail("'%s' is no option; one of: mib, hot_mib, hot_at_mib, pattern, order, stores, cold, "
             "phase_s, "
             "operations, phases, node, huge, lock, pause_us, forget, report, shared",
             word);
}

/* Maps a file and touches every page; missing pages are allocated as in allocate(). */
static char *map_file(const char *path, size_t bytes, int node)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        fail("shared: %s: %s", path, strerror(errno));
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        fail("shared: mmap of %s: %s", path, strerror(errno));
    close(file);
    if (node >= 0)
        bind_to(node);
    for (size_t at = 0; at < bytes; at += PAGE_BYTES)
        memory[at] = (char)(at / PAGE_BYTES + 1);
    if (node >= 0)
        bind_to(-1);
    return memory;
}

/* Returns the start of the hot part in this phase. */
static size_t hot_start(const struct options *options, long phase)
{
    long steps = options->mib / options->hot_mib;
    long first = options->hot_at_mib / options->hot_mib;
    if (options->pattern == FIXED)
        return (size_t)options->hot_at_mib * MIB;
    if (options->pattern == STAIRS || steps == 1)
        return (size_t)((first + phase) % steps * options->hot_mib) * MIB;
    long period = 2 * (steps - 1), at = (first + phase) % period;
    return (size_t)((at < steps ? at : period - at) * options->hot_mib) * MIB;
}

static void write_report(const struct options *options, const struct region *region, long phase)
{
    if (!options->report)
        return;
    char beside[4096];
    if (snprintf(beside, sizeof beside, "%s.new", options->report) >= (int)sizeof beside)
        fail("report: the name is too long");
    FILE *file = fopen(beside, "w");
    if (!file)
        fail("report: %s: %s", beside, strerror(errno));
    fprintf(file,
            "{\"pid\": %d, \"phase\": %ld, \"start\": %lu, \"bytes\": %zu, \"hot_start\": %lu, "
            "\"hot_bytes\": %zu}\n",
            getpid(), phase, (uintptr_t)region->memory, region->bytes,
            (uintptr_t)region->memory + region->hot_at, region->hot_bytes);
    if (fclose(file) != 0 || rename(beside, options->report) != 0)
        fail("report: %s: %s", options->report, strerror(errno));
}

/* Does one burst of accesses; `position` is the next line of a sequential walk. Returns the sum of
 * the data read. */
static uint64_t burst(const struct options *options, const struct region *region, uint64_t *seed,
                      size_t *position)
{
    size_t hot_lines = region->hot_bytes / LINE_BYTES, lines = region->bytes / LINE_BYTES;
    uint64_t sum = 0;
    for (int i = 0; i < BURST; i++) {
        uint64_t draw = random_next(seed);
        size_t line;
        if (options->cold && (draw >> 40) % 1000 < (uint64_t)options->cold)
            line = draw % lines;
        else
            line = region->hot_at / LINE_BYTES +
                   (options->sequential ? (*position)++ : draw) % hot_lines;
        volatile char *at = region->memory + line * LINE_BYTES;
        if (options->stores && (draw >> 20) % 100 < (uint64_t)options->stores)
            *at = (char)draw;
        else
            sum += (unsigned char)*at;
    }
    return sum;
}

/*
 * Removes the access rights of so many pages that the kernel drops all of the process's TLB
 * entries, instead of single ones (up to 33 on x86).
 */
static void forget_translations(void)
{
    static char *pages;
    size_t bytes = 64 * PAGE_BYTES;
    if (!pages)
        pages = allocate(bytes, -1, 0);
    if (mprotect(pages, bytes, PROT_NONE) != 0 ||
        mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0)
        fail("mprotect: %s", strerror(errno));
}

static void run_phase(const struct options *options, struct region *region, long phase,
                      uint64_t *seed, uint64_t *checksum)
{
    region->hot_at = hot_start(options, phase);
    write_report(options, region, phase);
    double start = now_s(), end = start + (double)options->phase_s, now = start;
    long operations = 0;
    size_t position = 0;
    while (options->operations ? operations < options->operations : now < end) {
        *checksum += burst(options, region, seed, &position);
        operations += BURST;
        if (options->forget)
            forget_translations();
        if (options->pause_us)
            usleep((useconds_t)options->pause_us);
        now = now_s();
    }
    printf("{\"phase\": %ld, \"hot_start\": %lu, \"hot_bytes\": %zu, \"operations\": %ld, "
           "\"seconds\": %.6f, \"checksum\": %lu}\n",
           phase, (uintptr_t)region->memory + region->hot_at, region->hot_bytes, operations,
           now - start, *checksum);
    fflush(stdout);
}

int main(int count, char **words)
{
    struct options options = {.node = -1, .phase_s = 10};
    for (int i = 1; i < count; i++)
        read_option(&options, words[i]);
    if (options.mib == 0 || options.hot_mib == 0)
        fail("mib and hot_mib are needed, for example: stairs mib=64 hot_mib=8 pattern=fixed");
    if (options.hot_at_mib + options.hot_mib > options.mib)
        fail("the hot part (hot_at_mib=%ld, hot_mib=%ld) does not fit into mib=%ld",
             options.hot_at_mib, options.hot_mib, options.mib);
    struct region region = {.bytes = (size_t)options.mib * MIB,
                            .hot_bytes = (size_t)options.hot_mib * MIB};
    region.memory = options.shared ? map_file(options.shared, region.bytes, (int)options.node)
                                   : allocate(region.bytes, (int)options.node, options.huge != 0);
    if (options.lock && mlock(region.memory, region.bytes) != 0)
        fail("mlock of %zu bytes: %s", region.bytes, strerror(errno));
    uint64_t seed = RANDOM_SEED, checksum = 0;
    for (long phase = 0; options.phases == 0 || phase < options.phases; phase++)
        run_phase(&options, &region, phase, &seed, &checksum);
    return 0;
}
