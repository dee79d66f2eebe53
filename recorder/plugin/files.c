/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "grow.h"

struct file {
    dev_t device;
    ino_t inode;
    uint32_t next; /* next file of the bucket, plus one */
};
static struct file *files;
static size_t n_files, files_capacity;

/* Hash buckets: chains stay short for the tens of thousands of files of a search through a source
 * tree. */
#define BUCKETS 16384
static uint32_t buckets[BUCKETS]; /* first file of each, plus one */

static uint32_t number_of(dev_t device, ino_t inode)
{
    uint32_t *bucket = &buckets[(inode ^ device) % BUCKETS];
    for (uint32_t i = *bucket; i != 0; i = files[i - 1].next) {
        if (files[i - 1].inode == inode && files[i - 1].device == device)
            return i - 1;
    }
    GROW(files, files_capacity, n_files + 1);
    files[n_files] = (struct file){device, inode, *bucket};
    *bucket = (uint32_t)n_files + 1;
    return (uint32_t)n_files++;
}

bool files_number(int descriptor, uint32_t *number)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    /* procfs, cgroupfs and similar file systems generate data that no page holds; their files have
     * size 0. */
    if (status.st_size == 0)
        return false;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || (flags & O_DIRECT))
        return false;
    *number = number_of(status.st_dev, status.st_ino);
    return true;
}

bool files_is_anonymous(int descriptor)
{
    struct stat status;
    struct statfs filesystem;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
        return true;
    return fstatfs(descriptor, &filesystem) == 0 &&
           (filesystem.f_type == TMPFS_MAGIC || filesystem.f_type == HUGETLBFS_MAGIC);
}
