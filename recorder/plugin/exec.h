/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Following execve: QEMU, with this plugin and the new program, replaces the guest's process. The
 * process id, the descriptors and the directory stay, as in the kernel.
 */
#ifndef TIERWISE_EXEC_H
#define TIERWISE_EXEC_H

#include <stdbool.h>
#include <stdint.h>

struct exec {
    const char *program; /* the ELF file, behind all interpreters */
    char **arguments;    /* QEMU's; ends with NULL */
    char **environment;  /* the program's; ends with NULL */
};

/* Stores the plugin's arguments for the next QEMU. `on_refusal` runs before the guest is ended, so
 * that the recording so far is not lost. */
void exec_init(int argc, char **argv, const char *target, void (*on_refusal)(void));

/* Finds the program that a guest's execveat would run. Returns false if the kernel will refuse
 * it, so that the guest gets the error. Ends the guest with a message if the kernel would run it
 * and the recorder cannot follow. */
bool exec_resolve(struct exec *exec, int directory, uint64_t path, uint64_t arguments,
                  uint64_t environment, int flags);

/* Executes QEMU with the new program. */
_Noreturn void exec_run(const struct exec *exec);

#endif
