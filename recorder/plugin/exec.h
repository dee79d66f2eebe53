/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Following execve: the guest's process is replaced by QEMU, with this plugin, around the new
 * program. Process number, descriptors and directory stay, as the kernel keeps them.
 */
#ifndef TIERWISE_EXEC_H
#define TIERWISE_EXEC_H

#include <stdbool.h>
#include <stdint.h>

struct exec {
    const char *program; /* the ELF file, behind all interpreters */
    char **arguments;    /* of QEMU; ends with NULL */
    char **environment;  /* of the program; ends with NULL */
};

/*
 * Keeps what a following QEMU must be given: the plugin's own arguments. `on_refusal` runs before
 * the guest is ended, so that what was recorded is not lost.
 */
void exec_init(int argc, char **argv, const char *target, void (*on_refusal)(void));

/*
 * What a guest's execveat would run. False when the kernel will refuse it, and the guest is to hear
 * so. Ends the guest with a message when the kernel would run it and the recorder cannot follow.
 */
bool exec_resolve(struct exec *exec, int directory, uint64_t path, uint64_t arguments,
                  uint64_t environment, int flags);

/* Does it. */
_Noreturn void exec_run(const struct exec *exec);

#endif
