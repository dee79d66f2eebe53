/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU plugin that makes the slow memory node of an emulated machine slow, in the guest's own
 * clock, counts the true misses of every physical page, and flushes TLBs, so that the CPU sets
 * accessed bits again.
 *
 * Arguments:
 *   flush_us=N        each vCPU flushes its TLB every N us of the host (see below)
 *   node=ID:NS:A-B    a memory node: its addresses and the cost of a miss (may be repeated)
 *   llc_bytes=BYTES, llc_ways=WAYS    the modelled last-level cache
 *   charge=on|off     on: misses move the guest's clock (needs -icount and one vCPU)
 *   flush_accesses=N  a vCPU flushes its TLB after N accesses to memory
 *   counters=FILE     the file of the counts (counters.h)
 *
 * Without `node` the plugin monitors no access and the guest runs at full speed: flush_us costs
 * only the flushes. With `node` it monitors accesses from the guest's request on (counters.h),
 * because a boot's accesses are not needed, and the boot would take three times as long.
 *
 * The flushes are needed because the CPU sets a page table's accessed bit when it fills a TLB
 * entry. A real TLB has a few thousand entries and evicts them. QEMU's grows to the program's use
 * and keeps its entries. If the kernel clears a bit without a flush, as DAMON and MGLRU do, the
 * page would appear idle while the program runs undisturbed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache_model.h"
#include "counters.h"
#include "heat.h"
#include "nodes.h"
#include "qemu_machine.h"

/* The oldest interface version of QEMU 10 that has every call used here. */
QEMU_EXPORT int qemu_plugin_version = 4;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
                                    char **argv);

#define LINE_SHIFT 6
#define LINE_BYTES (1u << LINE_SHIFT)
/* A power of two above what the lab's guests have: two. */
#define VCPUS_MAX 8
/*
 * A first-level cache of 32 KiB in front of the model, direct-mapped and by virtual address: most
 * accesses hit it, and only the others need the look-up of a physical address.
 */
#define FIRST_LEVEL_LINES 512
/*
 * After this much charged time the vCPU checks its timers. A guest's tick is 4 ms; a hundredth of
 * it keeps its timers punctual, and one exit in 400 misses has a negligible cost.
 */
#define INTERRUPT_EVERY_NS 50000
/* Interval of checks for the guest's request. The guest waits for the answer once, at the end of
 * its boot. */
#define WANTED_POLL_US 1000

static struct vcpu {
    uint64_t lines[FIRST_LEVEL_LINES]; /* virtual line plus one */
    uint64_t charged_since;
    uint64_t accesses_since;
} vcpus[VCPUS_MAX];

static struct cache_model cache;
static bool charges;
static uint64_t flush_accesses;
static uint64_t flush_us;
static unsigned vcpus_seen;
static bool watching;

static _Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("tiermem: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(125);
}

static void charge(unsigned index, uint64_t ns)
{
    struct vcpu *vcpu = &vcpus[index];
    counters()->charged_ns += ns;
    machine_charge(ns);
    vcpu->charged_since += ns;
    if (vcpu->charged_since >= INTERRUPT_EVERY_NS) {
        vcpu->charged_since = 0;
        machine_interrupt(index);
    }
}

static void flush(unsigned index)
{
    counters()->tlb_flushes++;
    machine_flush_tlb(index);
}

static void access_memory(unsigned index, uint64_t physical, uint64_t address, int node, bool store)
{
    struct counters *counts = counters();
    ++*(store ? &counts->stores[node] : &counts->loads[node]);
    if (!cache_model_access(&cache, physical >> LINE_SHIFT))
        return;
    ++*(store ? &counts->store_misses[node] : &counts->load_misses[node]);
    /* The lower half of a 64-bit address space belongs to user programs. */
    if (!(address >> 63)) {
        ++counts->user_misses[node];
        /* Such a guest has one vCPU. */
        if (charges) {
            heat_count(address);
            heat_answer();
        }
    }
    uint32_t *misses = counters_of_page(physical >> COUNTERS_PAGE_SHIFT);
    if (misses)
        ++*misses;
    if (charges)
        charge(index, nodes_latency(node));
}

static void on_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)data;
    struct vcpu *vcpu = &vcpus[index % VCPUS_MAX];
    uint64_t line = address >> LINE_SHIFT;
    uint64_t *cached = &vcpu->lines[line % FIRST_LEVEL_LINES];
    if (*cached == line + 1)
        return;
    *cached = line + 1;
    struct qemu_plugin_hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (!where || qemu_plugin_hwaddr_is_io(where))
        return;
    uint64_t physical = qemu_plugin_hwaddr_phys_addr(where);
    int node = nodes_of(physical);
    if (node < 0)
        return;
    access_memory(index, physical, address, node, qemu_plugin_mem_is_store(info));
    if (flush_accesses && ++vcpu->accesses_since >= flush_accesses) {
        vcpu->accesses_since = 0;
        flush(index);
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    if (!__atomic_load_n(&watching, __ATOMIC_ACQUIRE))
        return;
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < instructions; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void on_vcpu(qemu_plugin_id_t id, unsigned index)
{
    (void)id;
    if (index >= VCPUS_MAX)
        fatal("the guest has more than %d CPUs", VCPUS_MAX);
    if (index >= __atomic_load_n(&vcpus_seen, __ATOMIC_RELAXED))
        __atomic_store_n(&vcpus_seen, index + 1, __ATOMIC_RELEASE);
}

static void sleep_us(uint64_t us)
{
    struct timespec time = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static void *watch_when_wanted(void *data)
{
    (void)data;
    while (!__atomic_load_n(&counters()->wanted, __ATOMIC_ACQUIRE))
        sleep_us(WANTED_POLL_US);
    __atomic_store_n(&watching, true, __ATOMIC_RELEASE);
    machine_retranslate();
    __atomic_store_n(&counters()->watching, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *flush_forever(void *data)
{
    (void)data;
    for (;;) {
        sleep_us(flush_us);
        unsigned seen = __atomic_load_n(&vcpus_seen, __ATOMIC_ACQUIRE);
        for (unsigned index = 0; index < seen; index++)
            flush(index);
    }
    return NULL;
}

static const char *value_of(const char *argument, const char *key)
{
    size_t length = strlen(key);
    return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                          : NULL;
}

static uint64_t number(const char *argument, const char *value)
{
    char *end;
    uint64_t result = strtoull(value, &end, 10);
    if (end == value || *end != '\0')
        fatal("%s: a number is expected", argument);
    return result;
}

struct options {
    const char *counters;
    uint64_t llc_bytes, llc_ways;
};

static void read_option(const char *argument, struct options *options)
{
    const char *value, *wrong;
    if ((value = value_of(argument, "node"))) {
        if ((wrong = nodes_declare(value)))
            fatal("%s: %s", argument, wrong);
    } else if ((value = value_of(argument, "counters"))) {
        options->counters = value;
    } else if ((value = value_of(argument, "llc_bytes"))) {
        options->llc_bytes = number(argument, value);
    } else if ((value = value_of(argument, "llc_ways"))) {
        options->llc_ways = number(argument, value);
    } else if ((value = value_of(argument, "flush_accesses"))) {
        flush_accesses = number(argument, value);
    } else if ((value = value_of(argument, "flush_us"))) {
        flush_us = number(argument, value);
    } else if ((value = value_of(argument, "charge"))) {
        charges = strcmp(value, "on") == 0;
    } else {
        fatal("unknown argument %s; known: node, counters, llc_bytes, llc_ways, flush_accesses, "
              "flush_us, "
              "charge",
              argument);
    }
}

static void start(void *(*function)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0)
        fatal("the host has no thread left");
    pthread_detach(thread);
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
    struct options options = {0};
    for (int i = 0; i < argc; i++)
        read_option(argv[i], &options);
    if (!info->system_emulation)
        fatal("this plugin watches a whole machine: use qemu-system-x86_64");
    const char *wrong = machine_find(charges);
    if (!wrong)
        wrong = counters_open(options.counters, nodes_end() >> COUNTERS_PAGE_SHIFT);
    if (wrong)
        fatal("%s", wrong);
    if (nodes_count() > 0) {
        wrong = cache_model_init(&cache, options.llc_bytes, (uint32_t)options.llc_ways, LINE_BYTES);
        if (wrong)
            fatal("llc_bytes=%lu, llc_ways=%lu: %s", options.llc_bytes, options.llc_ways, wrong);
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        start(watch_when_wanted);
    }
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    if (flush_us)
        start(flush_forever);
    return 0;
}
