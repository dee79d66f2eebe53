#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_file(int fd, const struct stat *was)
{
    struct stat now;
    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == was->st_dev &&
           now.st_ino == was->st_ino;
}

int uffd_open(struct uffd *uffd, const struct uffd_way *way, const char **step)
{
    *uffd = (struct uffd){.way = way, .fd = -1, .pagemap = -1, .fork_depth = fork_depth()};
    *step = "userfaultfd";
    /* User mode only needs no privilege under any value of vm.unprivileged_userfaultfd. The kernel
     * resolves an asynchronous fault itself, also when the kernel touches the page. */
    uffd->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (uffd->fd < 0) {
        return errno;
    }
    fstat(uffd->fd, &uffd->fd_was);
    *step = "UFFDIO_API";
    struct uffdio_api api = {.api = UFFD_API, .features = way->features};
    if (ioctl(uffd->fd, UFFDIO_API, &api) < 0) {
        int error = errno;
        uffd_close(uffd);
        return error;
    }
    *step = "/proc/self/pagemap";
    uffd->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (uffd->pagemap < 0) {
        int error = errno;
        uffd_close(uffd);
        return error;
    }
    fstat(uffd->pagemap, &uffd->pagemap_was);
    *step = "PAGEMAP_SCAN";
    struct emt_page_region regions[REGIONS];
    /* An empty range: it only shows whether the kernel knows the call. */
    long scanned = uffd_scan(uffd, PAGE_BYTES, PAGE_BYTES, 0, regions);
    if (scanned < 0) {
        uffd_close(uffd);
        return (int)-scanned;
    }
    return 0;
}

void uffd_close(struct uffd *uffd)
{
    if (is_file(uffd->fd, &uffd->fd_was)) {
        close(uffd->fd);
    }
    if (is_file(uffd->pagemap, &uffd->pagemap_was)) {
        close(uffd->pagemap);
    }
    uffd->fd = uffd->pagemap = -1;
}

bool uffd_kept(const struct uffd *uffd)
{
    return is_file(uffd->fd, &uffd->fd_was) && is_file(uffd->pagemap, &uffd->pagemap_was);
}

bool uffd_own(const struct uffd *uffd)
{
    return uffd->fork_depth == fork_depth();
}

int uffd_register(struct uffd *uffd, uintptr_t start, uintptr_t end)
{
    struct uffdio_register args = {.range = {start, end - start}, .mode = uffd->way->register_mode};
    return ioctl(uffd->fd, UFFDIO_REGISTER, &args) < 0 ? errno : 0;
}

void uffd_unregister(struct uffd *uffd, uintptr_t start, uintptr_t end)
{
    struct uffdio_range range = {start, end - start};
    ioctl(uffd->fd, UFFDIO_UNREGISTER, &range);
}

long uffd_scan(struct uffd *uffd, uintptr_t start, uintptr_t end, uint64_t flags,
               struct emt_page_region *regions)
{
    struct emt_pm_scan_arg arg = {
        .size = sizeof arg,
        .flags = flags,
        .start = start,
        .end = end,
        .vec = (uint64_t)(uintptr_t)regions,
        .vec_len = REGIONS,
        .category_inverted = EMT_PAGE_IS_HUGE,
        .category_mask = EMT_PAGE_IS_PRESENT | EMT_PAGE_IS_HUGE,
        .return_mask = EMT_PAGE_IS_PRESENT | uffd->way->touched,
    };
    long found = ioctl(uffd->pagemap, EMT_PAGEMAP_SCAN, &arg);
    return found < 0 ? -errno : found;
}

uintptr_t uffd_next_present(struct uffd *uffd, uintptr_t start, uintptr_t end)
{
    struct emt_page_region region;
    struct emt_pm_scan_arg arg = {
        .size = sizeof arg,
        .start = start,
        .end = end,
        .vec = (uint64_t)(uintptr_t)&region,
        .vec_len = 1,
        .max_pages = 1,
        .category_inverted = EMT_PAGE_IS_HUGE,
        .category_mask = EMT_PAGE_IS_PRESENT | EMT_PAGE_IS_HUGE,
        .return_mask = EMT_PAGE_IS_PRESENT,
    };
    return ioctl(uffd->pagemap, EMT_PAGEMAP_SCAN, &arg) > 0 ? (uintptr_t)region.start : end;
}

bool uffd_huge(int pagemap, uintptr_t address)
{
    struct emt_page_region region;
    struct emt_pm_scan_arg arg = {
        .size = sizeof arg,
        .start = address,
        .end = address + PAGE_BYTES,
        .vec = (uint64_t)(uintptr_t)&region,
        .vec_len = 1,
        .category_mask = EMT_PAGE_IS_HUGE,
        .return_mask = EMT_PAGE_IS_HUGE,
    };
    return ioctl(pagemap, EMT_PAGEMAP_SCAN, &arg) > 0;
}

/* Pages whose faults are timed: reading the clock (some 50 ns) is negligible beside them. Four
 * times as many gave the same cost of a fault within 3 %, and took 13 ms instead of 3. */
#define CALIBRATED_PAGES 512
/* Distance in pages between two touches: it is odd, so that every page is touched. A program's
 * touches do not follow addresses either. */
#define STRIDE 797
/* Rounds, of which the median counts: the shortest had warm caches, and the longest was
 * interrupted. */
#define CALIBRATION_ROUNDS 3
/* Bytes that are written before a round, so that the caches do not hold the round's own data: as
 * much as a second-level cache. */
#define COLD_BYTES ((size_t)2 << 20)
#define LINE_BYTES 64

static int64_t touch_ns(volatile char *memory)
{
    int64_t began = thread_cpu_ns();
    for (size_t n = 0; n < CALIBRATED_PAGES; n++) {
        memory[n * STRIDE % CALIBRATED_PAGES * PAGE_BYTES] = 1;
    }
    return thread_cpu_ns() - began;
}

static void cool(volatile char *memory)
{
    for (size_t at = 0; at < COLD_BYTES; at += LINE_BYTES) {
        memory[at]++;
    }
}

static int by_length(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Returns the median of the rounds, or -errno. It includes the cost of a touch without a fault,
 * which a program pays in any case. That cost is small, and makes the result an upper bound. */
static int64_t time_rounds(struct uffd *uffd, char *memory, char *other)
{
    struct emt_page_region regions[REGIONS];
    uintptr_t start = (uintptr_t)memory, end = start + CALIBRATED_PAGES * PAGE_BYTES;
    int64_t took[CALIBRATION_ROUNDS];
    for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
        for (uintptr_t piece = start; piece < end; piece += REGIONS * PAGE_BYTES) {
            long found = uffd->way->protect(uffd, piece, piece + REGIONS * PAGE_BYTES, regions);
            if (found < 0) {
                return found;
            }
        }
        cool(other);
        took[round] = touch_ns(memory);
    }
    qsort(took, CALIBRATION_ROUNDS, sizeof *took, by_length);
    return took[CALIBRATION_ROUNDS / 2];
}

int64_t uffd_fault_ns(struct uffd *uffd)
{
    size_t bytes = CALIBRATED_PAGES * PAGE_BYTES;
    char *memory =
        mmap(NULL, bytes + COLD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -ENOMEM;
    }
    /* The calibration is for faults of 4 KiB pages, even if the machine uses huge pages for memory
     * without advice. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    touch_ns(memory);
    int error = uffd_register(uffd, (uintptr_t)memory, (uintptr_t)memory + bytes);
    int64_t took = error == 0 ? time_rounds(uffd, memory, memory + bytes) : -error;
    uffd_unregister(uffd, (uintptr_t)memory, (uintptr_t)memory + bytes);
    munmap(memory, bytes + COLD_BYTES);
    if (took < 0) {
        return took;
    }
    /* An eighth more: a program's own faults differ from the calibration by some 5 % either way,
     * and the accounted cost must not be too low. One more: a clock too coarse to measure a fault
     * must not make its cost zero. */
    return took / CALIBRATED_PAGES * 9 / 8 + 1;
}
