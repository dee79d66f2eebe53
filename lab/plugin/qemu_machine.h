/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU functions that this plugin needs beyond the recorder's part of QEMU's plugin interface
 * (qemu_api.h): physical addresses, which only a whole machine has, and three functions that the
 * interface lacks. machine_find looks these up by name, once, in the running QEMU.
 *
 * They are written for QEMU 10.0. The interface's official function for moving the guest's clock,
 * qemu_plugin_update_ns, does not move it under TCG.
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

/* Looks up QEMU's own functions. Returns NULL, or the name of a missing one. */
const char *machine_find(bool needs_clock);

/* Moves the guest's clock forward. It requires machine_find(true), and only the only vCPU calls
 * it. */
void machine_charge(uint64_t ns);

/* Makes the vCPU check its timers soon, after its clock was moved. */
void machine_interrupt(unsigned vcpu);

/* Makes QEMU translate all code again, with the plugin's current callbacks. Any thread may call
 * it. */
void machine_retranslate(void);

/* Makes the vCPU flush its TLB when it is next between two blocks. Any thread may call it. */
void machine_flush_tlb(unsigned vcpu);

#endif
