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

/* Keeps the arguments of a following QEMU: the plugin's own. `on_refusal` runs before the guest
 * is ended, so that the recording so far is not lost. */
void exec_init(int argc, char **argv, const char *target, void (*on_refusal)(void));

/* Finds the program that a guest's execveat would run. Returns false if the kernel will refuse
 * it, so that the guest gets the error. Ends the guest with a message if the kernel would run it
 * and the recorder cannot follow. */
bool exec_resolve(struct exec *exec, int directory, uint64_t path, uint64_t arguments,
                  uint64_t environment, int flags);

/* Does it. */
_Noreturn void exec_run(const struct exec *exec);

#endif
