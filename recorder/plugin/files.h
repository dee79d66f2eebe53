/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers for the files whose page-cache pages a guest reaches through system calls. */
#ifndef TIERWISE_FILES_H
#define TIERWISE_FILES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The number of the file behind a descriptor of the calling guest thread. False when its data does
 * not go through the page cache: sockets, pipes, O_DIRECT, files that the kernel makes up. Under
 * the recorder's lock.
 */
bool files_number(int descriptor, uint32_t *number);

/* True for files that live in anonymous, swappable memory: tmpfs, memfd, hugetlbfs, devices. */
bool files_is_anonymous(int descriptor);

#endif
