/* uffd-wp: asynchronous write protection, Linux 6.7. A write removes the protection by itself;
 * PAGEMAP_SCAN reports which pages were written, and protects them again in the same call. Every
 * use of a Python object writes its reference count. */
#include "uffd.h"

static long protect(struct uffd *uffd, uintptr_t start, uintptr_t end,
                    struct emt_page_region *regions)
{
    return uffd_scan(uffd, start, end, EMT_PM_SCAN_WP_MATCHING, regions);
}

const struct uffd_way uffd_wp = {
    .name = "uffd-wp",
    .features = EMT_UFFD_FEATURE_WP_UNPOPULATED | EMT_UFFD_FEATURE_WP_ASYNC,
    .register_mode = EMT_UFFDIO_REGISTER_MODE_WP,
    .touched = EMT_PAGE_IS_WRITTEN,
    .since = "6.7",
    .protect = protect,
};
