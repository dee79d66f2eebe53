/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU plugin that counts a program's accesses by granules of 16 bytes: all of them, and those
 * that miss a modelled cache.
 *
 * Arguments: cache_bytes=BYTES, cache_ways=WAYS. Counting starts when the guest asks for the shared
 * memory (shared.h); until then the program runs without the cost of callbacks.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache_model.h"
#include "qemu_api.h"
#include "shared.h"

QEMU_EXPORT int qemu_plugin_version = 1;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
                                    char **argv);
/* Drops all callbacks and all translated code, then calls `cb`. */
void qemu_plugin_reset(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id));

#define LINE_SHIFT 6
/* A direct-mapped cache of 32 KiB before the modelled one, as the lab's plugin has: a first-level
 * cache, which also saves most look-ups. */
#define FIRST_LINES 512

static struct shared shared;
static struct cache_model cache;
static uint64_t first_level[FIRST_LINES];

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("truth: no memory for counters");
        exit(1);
    }
    return memory;
}

static struct chunk *chunk_of(uint64_t address)
{
    struct chunk **chunk = &shared.chunks[address >> CHUNK_SHIFT];
    if (__builtin_expect(!*chunk, 0))
        *chunk = map(sizeof **chunk);
    return *chunk;
}

static bool misses(uint64_t address)
{
    uint64_t line = address >> LINE_SHIFT;
    uint64_t *first = &first_level[line % FIRST_LINES];
    if (*first == line)
        return false;
    *first = line;
    return cache_model_access(&cache, line);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)vcpu, (void)info, (void)data;
    if (!shared.counting || address >> 47)
        return;
    struct chunk *chunk = chunk_of(address);
    uint32_t missed = misses(address);
    struct counts *granule = &chunk->granules[(address >> GRANULE_SHIFT) % CHUNK_GRANULES];
    struct counts *page = &chunk->pages[shared.window][(address >> 12) % CHUNK_PAGES];
    granule->accesses++;
    granule->misses += missed;
    page->accesses++;
    page->misses += missed;
    shared.accesses++;
    shared.misses += missed;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void see_every_access(qemu_plugin_id_t id);

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)vcpu, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number != TRUTH_SYSCALL)
        return;
    if (a1 == TRUTH_ADDRESS)
        *(struct shared **)(uintptr_t)a2 = &shared;
    else if (a1 == TRUTH_COUNT)
        qemu_plugin_reset(id, see_every_access);
    else if (a1 == TRUTH_CHUNK)
        chunk_of(a2);
}

static void see_every_access(qemu_plugin_id_t id)
{
    /* The reset has dropped this one too. */
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    shared.ready = 1;
}

static uint64_t number_of(int argc, char **argv, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < argc; i++)
        if (strncmp(argv[i], key, length) == 0 && argv[i][length] == '=')
            return strtoull(argv[i] + length + 1, NULL, 10);
    fprintf(stderr, "truth: %s=NUMBER is missing\n", key);
    exit(1);
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
    if (info->system_emulation) {
        fprintf(stderr, "truth: the plugin counts user programs\n");
        return 1;
    }
    uint64_t bytes = number_of(argc, argv, "cache_bytes");
    const char *wrong = cache_model_init(
        &cache, bytes, (uint32_t)number_of(argc, argv, "cache_ways"), 1u << LINE_SHIFT);
    if (wrong) {
        fprintf(stderr, "truth: cache_bytes=%lu: %s\n", bytes, wrong);
        return 1;
    }
    shared.chunks = map(CHUNKS * sizeof *shared.chunks);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    return 0;
}
