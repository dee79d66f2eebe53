/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this plugin needs beyond the recorder's part of QEMU's plugin interface (qemu_api.h):
 * physical addresses, which only a whole machine has, and three things that the interface does not
 * offer and that are looked up in the running QEMU by name, once, in machine_find.
 *
 * Written for QEMU 10.0. The interface's qemu_plugin_update_ns would be the official way to move
 * the guest's clock, but does not move it under TCG.
 */
#ifndef TIERWISE_QEMU_MACHINE_H
#define TIERWISE_QEMU_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"

struct qemu_plugin_hwaddr;
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

/* Looks up QEMU's own functions; returns NULL or what this QEMU lacks. */
const char *machine_find(bool needs_clock);

/* Moves the guest's clock forward. Only after machine_find(true); called by the only vCPU. */
void machine_charge(uint64_t ns);

/* Makes the vCPU check its timers soon: its clock has been moved. */
void machine_interrupt(unsigned vcpu);

/* Makes QEMU translate all code again, through the plugin's callbacks as they are then. From any
 * thread. */
void machine_retranslate(void);

/* Makes the vCPU forget where pages are when it is next between two blocks. From any thread. */
void machine_flush_tlb(unsigned vcpu);

#endif
