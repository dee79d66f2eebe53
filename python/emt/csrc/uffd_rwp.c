/* uffd-rwp: asynchronous read and write protection, Linux 7.3. It also reports memory that is only
 * read: tables of dicts, buffers, arrays. */
#include "uffd.h"

#include <errno.h>

static long protect(struct uffd *uffd, uintptr_t start, uintptr_t end,
                    struct emt_page_region *regions)
{
    long found = uffd_scan(uffd, start, end, 0, regions);
    struct emt_uffdio_rwprotect args = {.range = {start, end - start},
                                        .mode = EMT_UFFDIO_RWPROTECT_MODE_RWP};
    if (found > 0 && ioctl(uffd->fd, EMT_UFFDIO_RWPROTECT, &args) < 0) {
        return -errno;
    }
    return found;
}

const struct uffd_way uffd_rwp = {
    .name = "uffd-rwp",
    .features = EMT_UFFD_FEATURE_RWP | EMT_UFFD_FEATURE_RWP_ASYNC,
    .register_mode = EMT_UFFDIO_REGISTER_MODE_RWP,
    .touched = EMT_PAGE_IS_ACCESSED,
    .since = "7.3",
    .protect = protect,
};
