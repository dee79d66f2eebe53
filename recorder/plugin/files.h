/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers of the files whose page-cache pages a guest accesses through system calls. */
#ifndef TIERWISE_FILES_H
#define TIERWISE_FILES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Finds the number of the file of a descriptor of the calling guest thread. Returns false if its
 * data bypasses the page cache: sockets, pipes, O_DIRECT, files that the kernel generates. The
 * caller holds the recorder's lock.
 */
bool files_number(int descriptor, uint32_t *number);

/* Returns true for files in anonymous, swappable memory: tmpfs, memfd, hugetlbfs, devices. */
bool files_is_anonymous(int descriptor);

#endif
