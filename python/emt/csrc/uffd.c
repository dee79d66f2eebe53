#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int uffd_open(struct uffd *uffd, const struct uffd_way *way, const char **step)
{
    *uffd = (struct uffd){.way = way, .fd = -1, .pagemap = -1, .fork_depth = fork_depth()};
    *step = "userfaultfd";
    /* For user mode only, which needs no privilege whatever vm.unprivileged_userfaultfd says: an asynchronous fault is resolved by
     * the kernel itself, also where the kernel is who touches the page. */
    uffd->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (uffd->fd < 0) {
        return errno;
    }
    *step = "UFFDIO_API";
    struct uffdio_api api = {.api = UFFD_API, .features = way->features};
    if (ioctl(uffd->fd, UFFDIO_API, &api) < 0) {
        int error = errno;
        uffd_close(uffd);
        return error;
    }
    *step = "/proc/self/pagemap";
    uffd->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    struct emt_page_region regions[REGIONS];
    *step = uffd->pagemap < 0 ? *step : "PAGEMAP_SCAN";
    /* An empty range: it only shows whether the kernel knows the call. */
    long scanned = uffd->pagemap < 0 ? -errno : uffd_scan(uffd, PAGE_BYTES, PAGE_BYTES, 0, regions);
    if (scanned < 0) {
        uffd_close(uffd);
        return (int)-scanned;
    }
    return 0;
}

void uffd_close(struct uffd *uffd)
{
    if (uffd->fd >= 0) {
        close(uffd->fd);
    }
    if (uffd->pagemap >= 0) {
        close(uffd->pagemap);
    }
    uffd->fd = uffd->pagemap = -1;
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

long uffd_scan(struct uffd *uffd, uintptr_t start, uintptr_t end, uint64_t flags, struct emt_page_region *regions)
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

/* Pages whose faults are timed: enough that reading the clock (some 50 ns) does not count. */
#define CALIBRATED_PAGES 256
/* Of several rounds the least: what interrupts a round only makes it longer. */
#define CALIBRATION_ROUNDS 5

static int64_t touch_ns(volatile char *memory)
{
    int64_t began = thread_cpu_ns();
    for (size_t page = 0; page < CALIBRATED_PAGES; page++) {
        memory[page * PAGE_BYTES] = 1;
    }
    return thread_cpu_ns() - began;
}

int64_t uffd_fault_ns(struct uffd *uffd)
{
    size_t bytes = CALIBRATED_PAGES * PAGE_BYTES;
    struct emt_page_region regions[REGIONS];
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return -ENOMEM;
    }
    /* Faults by 4 KiB are what is calibrated, whatever the machine does with memory that nobody advised on. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    touch_ns(memory);
    int64_t plain = touch_ns(memory), least = INT64_MAX;
    uintptr_t start = (uintptr_t)memory;
    long error = uffd_register(uffd, start, start + bytes);
    for (int round = 0; round < CALIBRATION_ROUNDS && error == 0; round++) {
        long found = uffd->way->protect(uffd, start, start + bytes, regions);
        error = found < 0 ? -found : 0;
        int64_t took = touch_ns(memory) - plain;
        least = took < least ? took : least;
    }
    uffd_unregister(uffd, start, start + bytes);
    munmap(memory, bytes);
    return error != 0 ? -error : (least > 0 ? least / CALIBRATED_PAGES : 1);
}
