/* The kernel's interfaces that report touched pages: userfaultfd and PAGEMAP_SCAN, in two ways
 * behind one interface.
 *
 * The numbers are the kernel's ABI (linux/userfaultfd.h, linux/fs.h). They are repeated here
 * because a build machine's headers may be older than the kernels on which a wheel runs. */
#ifndef TIERWISE_EMT_UFFD_H
#define TIERWISE_EMT_UFFD_H

#include "common.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define EMT_UFFD_FEATURE_WP_UNPOPULATED ((uint64_t)1 << 13)
#define EMT_UFFD_FEATURE_WP_ASYNC ((uint64_t)1 << 15)
#define EMT_UFFD_FEATURE_RWP ((uint64_t)1 << 17)
#define EMT_UFFD_FEATURE_RWP_ASYNC ((uint64_t)1 << 18)
#define EMT_UFFDIO_REGISTER_MODE_WP ((uint64_t)1 << 1)
#define EMT_UFFDIO_REGISTER_MODE_RWP ((uint64_t)1 << 3)

struct emt_uffdio_rwprotect {
    struct uffdio_range range;
    uint64_t mode;
};
#define EMT_UFFDIO_RWPROTECT _IOWR(UFFDIO, 0x09, struct emt_uffdio_rwprotect)
#define EMT_UFFDIO_RWPROTECT_MODE_RWP ((uint64_t)1)

#define EMT_PAGE_IS_WRITTEN ((uint64_t)1 << 1)
#define EMT_PAGE_IS_PRESENT ((uint64_t)1 << 3)
#define EMT_PAGE_IS_HUGE ((uint64_t)1 << 6)
#define EMT_PAGE_IS_ACCESSED ((uint64_t)1 << 9)
#define EMT_PM_SCAN_WP_MATCHING 1

struct emt_page_region {
    uint64_t start, end, categories;
};
struct emt_pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define EMT_PAGEMAP_SCAN _IOWR('f', 16, struct emt_pm_scan_arg)

/* One chunk's pages can alternate between two states. */
#define REGIONS 512

struct uffd;

/* One kind of protection. */
struct uffd_way {
    const char *name;
    uint64_t features;      /* of UFFDIO_API */
    uint64_t register_mode; /* of UFFDIO_REGISTER */
    uint64_t touched;       /* the category of PAGEMAP_SCAN that a touched page has */
    const char *since;      /* the first kernel that has it */
    /* Protects the present pages of a range, and first reports in `regions` which of them were
     * touched since the last call. Returns the number of regions, or -errno. */
    long (*protect)(struct uffd *uffd, uintptr_t start, uintptr_t end,
                    struct emt_page_region *regions);
};

extern const struct uffd_way uffd_wp;
extern const struct uffd_way uffd_rwp;

struct uffd {
    const struct uffd_way *way;
    int fd, pagemap;
    struct stat fd_was, pagemap_was; /* when they were opened */
    /* The fork depth of the process to whose memory both descriptors belong, also in a child that
     * inherits them. */
    unsigned fork_depth;
};

/* Opens both descriptors. Returns 0, or an error number; `step` then names the failed step. */
int uffd_open(struct uffd *uffd, const struct uffd_way *way, const char **step);
void uffd_close(struct uffd *uffd);

/* True if both are open. A program may close all descriptors that it does not know, and open files
 * in their place. */
bool uffd_kept(const struct uffd *uffd);

/* True if the descriptors belong to this process's memory. In a child they belong to its parent's,
 * and the child may only close them. */
bool uffd_own(const struct uffd *uffd);

/* 0, or an error number. */
int uffd_register(struct uffd *uffd, uintptr_t start, uintptr_t end);
void uffd_unregister(struct uffd *uffd, uintptr_t start, uintptr_t end);

/* Lists the present small pages of a range, with the category `touched` if they were touched;
 * `flags` are PAGEMAP_SCAN's. Returns the number of regions, or -errno. */
long uffd_scan(struct uffd *uffd, uintptr_t start, uintptr_t end, uint64_t flags,
               struct emt_page_region *regions);

/* Returns the first present small page of a range; the end of the range if there is none. It skips
 * huge pages, as scans do: protecting a part of a huge page splits it, which costs the program more
 * than moving a part could gain. The kernel skips untouched memory, so that terabytes of reserved
 * address space take no time. */
uintptr_t uffd_next_present(struct uffd *uffd, uintptr_t start, uintptr_t end);

/* True if an address is in a huge page; `pagemap` is a descriptor of /proc/self/pagemap. False
 * where the kernel does not report it. */
bool uffd_huge(int pagemap, uintptr_t address);

/* Returns the nanoseconds of CPU time that the first touch of a protected page costs the touching
 * thread, or -errno. */
int64_t uffd_fault_ns(struct uffd *uffd);

#endif
