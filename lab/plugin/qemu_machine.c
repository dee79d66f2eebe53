/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "qemu_machine.h"

#include <dlfcn.h>
#include <stddef.h>

struct cpu_state;
typedef void (*cpu_work)(struct cpu_state *cpu, uintptr_t data);

static struct {
    struct cpu_state *(*get_cpu)(int index);
    void (*run_on_cpu)(struct cpu_state *cpu, cpu_work work, uintptr_t data);
    void (*interrupt)(struct cpu_state *cpu);
    void (*flush_tlb)(struct cpu_state *cpu);
    void (*flush_code)(struct cpu_state *cpu);
    int64_t *icount_bias;
} qemu;

/* The offset of qemu_icount_bias in struct TimersState, QEMU 7.2 to 10.0; clock_moves checks it. */
#define ICOUNT_BIAS_OFFSET 0x28
/* A distance that the clock does not cover by itself between two readings. */
#define PROBE_NS 12345

static bool clock_moves(int64_t (*clock)(void))
{
    int64_t before = clock();
    *qemu.icount_bias += PROBE_NS;
    int64_t after = clock();
    *qemu.icount_bias -= PROBE_NS;
    return after - before == PROBE_NS;
}

static const char *find_clock(void)
{
    const int *use_icount = dlsym(RTLD_DEFAULT, "use_icount");
    char *timers = dlsym(RTLD_DEFAULT, "timers_state");
    int64_t (*clock)(void) = (int64_t (*)(void))dlsym(RTLD_DEFAULT, "icount_get");
    if (!use_icount || !timers || !clock)
        return "this QEMU does not export its clock (timers_state, icount_get)";
    if (*use_icount == 0)
        return "the guest's clock can only be charged under -icount";
    qemu.icount_bias = (int64_t *)(timers + ICOUNT_BIAS_OFFSET);
    return clock_moves(clock) ? NULL : "struct TimersState is laid out otherwise in this QEMU";
}

const char *machine_find(bool needs_clock)
{
    qemu.get_cpu = (struct cpu_state * (*)(int)) dlsym(RTLD_DEFAULT, "qemu_get_cpu");
    qemu.run_on_cpu =
        (void (*)(struct cpu_state *, cpu_work, uintptr_t))dlsym(RTLD_DEFAULT, "async_run_on_cpu");
    qemu.interrupt = (void (*)(struct cpu_state *))dlsym(RTLD_DEFAULT, "cpu_exit");
    qemu.flush_tlb = (void (*)(struct cpu_state *))dlsym(RTLD_DEFAULT, "tlb_flush");
    qemu.flush_code = (void (*)(struct cpu_state *))dlsym(RTLD_DEFAULT, "tb_flush");
    if (!qemu.get_cpu || !qemu.run_on_cpu || !qemu.interrupt || !qemu.flush_tlb || !qemu.flush_code)
        return "this QEMU does not export qemu_get_cpu, async_run_on_cpu, cpu_exit, tlb_flush and "
               "tb_flush";
    return needs_clock ? find_clock() : NULL;
}

void machine_charge(uint64_t ns)
{
    /* Other threads of QEMU read it without a lock; it is one word, so reads are atomic. */
    __atomic_fetch_add(qemu.icount_bias, (int64_t)ns, __ATOMIC_RELAXED);
}

void machine_interrupt(unsigned vcpu)
{
    struct cpu_state *cpu = qemu.get_cpu((int)vcpu);
    if (cpu)
        qemu.interrupt(cpu);
}

static void flush_code(struct cpu_state *cpu, uintptr_t data)
{
    (void)data;
    qemu.flush_code(cpu);
}

void machine_retranslate(void)
{
    struct cpu_state *first = qemu.get_cpu(0);
    if (first)
        qemu.run_on_cpu(first, flush_code, 0);
}

static void flush_tlb(struct cpu_state *cpu, uintptr_t data)
{
    (void)data;
    qemu.flush_tlb(cpu);
}

void machine_flush_tlb(unsigned vcpu)
{
    struct cpu_state *cpu = qemu.get_cpu((int)vcpu);
    /* Before the machine is complete the vCPU may not exist, and there is nothing to flush. */
    if (cpu)
        qemu.run_on_cpu(cpu, flush_tlb, 0);
}
