/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU plugin that records which pages a Linux program touches, window by window of executed
 * instructions, and which of its accesses would have missed a last-level cache.
 *
 * Arguments: socket=PATH, window=INSTRUCTIONS, llc_bytes=BYTES, llc_ways=WAYS, objects=on to follow
 * the objects of a CPython program, and layout=kernel to report the addresses that the kernel would
 * give to mappings.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "exec.h"
#include "grow.h"
#include "layout.h"
#include "mappings.h"
#include "objects.h"
#include "qemu_api.h"
#include "syscalls.h"
#include "threads.h"
#include "window.h"
#include "wire.h"

QEMU_EXPORT int qemu_plugin_version = 1;
QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
                                    char **argv);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t window_instructions;
/* Instructions by which earlier windows exceeded their length. The next window is shorter by them,
 * so that windows do not drift. */
static uint64_t overrun;
static uint64_t total_instructions;
static struct wire_buffer message;
/* False in a forked child, and after the end. */
static atomic_bool is_recording;
/* Processes that the program forked. */
static atomic_ulong children;

static inline bool recording(void)
{
    return atomic_load_explicit(&is_recording, memory_order_relaxed);
}

/*
 * QEMU refuses plugins that declare an interface older than it supports: 7.2 and 8 support version
 * 1, 9.0 starts at 2. The calls used here did not change, so the plugin declares QEMU's own
 * version.
 */
__attribute__((constructor)) static void declare_version(void)
{
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_mem_get_value"))
        qemu_plugin_version = 4;
    else if (dlsym(RTLD_DEFAULT, "qemu_plugin_scoreboard_new"))
        qemu_plugin_version = 2;
}

static void append_thread(uint32_t thread, uint64_t instructions, void *data)
{
    struct wire_window *head = data;
    struct wire_thread share = {.thread = thread, .instructions = instructions};
    wire_append(&message, &share, sizeof share);
    head->threads++;
    head->instructions += instructions;
}

/* The caller holds the lock. */
static void close_window(enum wire_reason reason)
{
    threads_drain();
    struct window_counts counts = window_counts();
    struct wire_window head = {.magic = "TWRW",
                               .reason = reason,
                               .allocations = counts.allocations,
                               .accesses = counts.accesses,
                               .unmaps = counts.unmaps};
    message.length = 0;
    wire_append(&message, &head, sizeof head);
    threads_take(append_thread, &head);
    window_take(&message);
    if (objects_followed())
        head.heats = objects_take(&message, &head.objects);
    memcpy(message.bytes, &head, sizeof head);
    total_instructions += head.instructions;
    wire_send(&message);
    if (!wire_is_open())
        atomic_store(&is_recording, false);
}

/* Pages that a program gives back in a window before the window ends early: 1 MiB. In a window the
 * allocations come first and the unmaps last; memory that is freed and allocated again at once
 * would be in the wrong order otherwise. Less than that is not worth a window. */
static const size_t freed_pages = 256;

/* Windows that end early have at least this part of a whole one's instructions, which limits their
 * number in a program that maps and unmaps all the time. */
static const uint64_t shortest_part = 64;

/* Ends the window if it has unmapped many pages. The caller holds the lock. */
static void end_after_unmaps(void)
{
    if (window_counts().unmaps >= freed_pages &&
        threads_instructions() >= window_instructions / shortest_part) {
        overrun = 0;
        close_window(WIRE_FULL);
    }
}

static void cut_now(void)
{
    pthread_mutex_lock(&lock);
    if (recording()) {
        overrun = 0;
        close_window(WIRE_CUT);
    }
    pthread_mutex_unlock(&lock);
}

/* Sets the instruction at which this thread next checks whether the window is full. The caller
 * holds the lock. */
static void plan_check(struct thread *thread, uint64_t executed)
{
    uint64_t remaining = window_instructions - overrun - executed;
    unsigned seen = threads_seen();
    /*
     * A single thread can run to the end of the window. With several threads it checks at half of
     * its even part of the rest, but at most once per thousandth of a window, which limits the
     * overrun.
     */
    if (seen > 1) {
        uint64_t least = window_instructions / 1024 + 1;
        remaining /= 2 * seen;
        if (remaining < least)
            remaining = least;
    }
    thread->check_at =
        atomic_load_explicit(&thread->instructions, memory_order_relaxed) + remaining;
}

static void check_window(struct thread *thread)
{
    pthread_mutex_lock(&lock);
    thread_number(thread);
    uint64_t executed = threads_instructions();
    if (executed + overrun >= window_instructions) {
        close_window(WIRE_FULL);
        overrun = (executed + overrun - window_instructions) % window_instructions;
        executed = 0;
    }
    plan_check(thread, executed);
    pthread_mutex_unlock(&lock);
}

static void on_block(unsigned vcpu, void *data)
{
    if (!recording())
        return;
    struct thread *thread = thread_of(vcpu);
    uint64_t instructions = atomic_load_explicit(&thread->instructions, memory_order_relaxed);
    /* The window is full before this block runs, so the block's accesses belong to the next
     * window. */
    if (__builtin_expect(instructions >= thread->check_at, 0))
        check_window(thread);
    atomic_store_explicit(&thread->instructions, instructions + (uintptr_t)data,
                          memory_order_relaxed);
}

/* log2 of the bytes << 1 | is a store, plus one: an access as QEMU's own functions describe it. */
static uint8_t describe(qemu_plugin_meminfo_t info)
{
    return (uint8_t)((qemu_plugin_mem_size_shift(info) << 1 | qemu_plugin_mem_is_store(info)) + 1);
}

static inline uint64_t description(qemu_plugin_meminfo_t info)
{
    /* QEMU packs an access into few bits, and a program uses a few dozen values, so one query per
     * value suffices. */
    static uint8_t known[1 << 18];
    if (__builtin_expect(info >= sizeof known, 0))
        return describe(info) - 1U;
    if (__builtin_expect(known[info] == 0, 0))
        known[info] = describe(info);
    return known[info] - 1U;
}

static void drain_own(struct thread *thread)
{
    pthread_mutex_lock(&lock);
    thread_drain(thread);
    pthread_mutex_unlock(&lock);
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)data;
    if (!recording())
        return;
    struct thread *thread = thread_of(vcpu);
    uint64_t head = atomic_load_explicit(&thread->head, memory_order_relaxed);
    if (__builtin_expect(head - atomic_load_explicit(&thread->tail, memory_order_acquire) == RING,
                         0))
        drain_own(thread);
    thread->ring[head % RING] = address << 8 | description(info);
    atomic_store_explicit(&thread->head, head + 1, memory_order_release);
}

static void check_addresses(struct qemu_plugin_tb *tb)
{
    const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
    uint64_t host = (uintptr_t)qemu_plugin_insn_haddr(first);
    if (host != qemu_plugin_insn_vaddr(first))
        fatal("QEMU runs this program at shifted addresses, which the recorder does not follow; "
              "build the program position-independent (-pie)");
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    static bool started;
    if (!recording())
        return;
    if (!started) {
        /* The first block: the program and its loader are mapped, and nothing has run. */
        started = true;
        check_addresses(tb);
        mappings_read_initial();
    }
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         (void *)instructions);
    for (size_t i = 0; i < instructions; i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

static void on_thread(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    pthread_mutex_lock(&lock);
    thread_begin(vcpu);
    pthread_mutex_unlock(&lock);
}

/* Ends the program's recording so far, with all its pages. The caller holds the lock. */
static void hand_over_before_exec(const char *program)
{
    window_unmap_all();
    close_window(WIRE_EXIT);
    size_t bytes = strlen(program);
    struct wire_exec exec = {
        .magic = "TWRX", .bytes = (uint32_t)bytes, .children = atomic_load(&children)};
    message.length = 0;
    wire_append(&message, &exec, sizeof exec);
    wire_append(&message, program, bytes);
    wire_send(&message);
    wire_flush();
}

/* Sends the recording so far before the program is ended. */
static void hand_over(void)
{
    pthread_mutex_lock(&lock);
    close_window(WIRE_EXIT);
    wire_flush();
    pthread_mutex_unlock(&lock);
}

/* Executes the guest's execve: replaces this process with QEMU, the recorder and the new
 * program. */
static void follow_exec(int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                        uint64_t a5)
{
    struct exec exec;
    bool found = number == SYS_execve ? exec_resolve(&exec, AT_FDCWD, a1, a2, a3, 0)
                                      : exec_resolve(&exec, (int)a1, a2, a3, a4, (int)a5);
    /* The kernel refuses the call, and the guest continues. */
    if (!found)
        return;
    pthread_mutex_lock(&lock);
    threads_drain();
    hand_over_before_exec(exec.program);
    exec_run(&exec);
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2,
                       uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)a7, (void)a8;
    if (!recording())
        return;
    if (number == SYS_execve || number == SYS_execveat)
        follow_exec(number, a1, a2, a3, a4, a5);
    if (!syscall_matters(number))
        return;
    struct thread *thread = thread_of(vcpu);
    uint64_t arguments[6] = {a1, a2, a3, a4, a5, a6};
    memcpy(thread->syscall, arguments, sizeof arguments);
    pthread_mutex_lock(&lock);
    threads_drain();
    syscall_enter(thread, number);
    end_after_unmaps();
    pthread_mutex_unlock(&lock);
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned vcpu, int64_t number, int64_t result)
{
    (void)id;
    if (!recording() || !syscall_matters(number))
        return;
    pthread_mutex_lock(&lock);
    threads_drain();
    syscall_leave(thread_of(vcpu), number, result);
    end_after_unmaps();
    pthread_mutex_unlock(&lock);
}

static void on_exit_of_guest(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    if (!recording())
        return;
    pthread_mutex_lock(&lock);
    close_window(WIRE_EXIT);
    struct wire_end end = {.magic = "TWRE",
                           .children = (uint32_t)atomic_load(&children),
                           .instructions = total_instructions};
    wire_append(&message, &end, sizeof end);
    wire_send(&message);
    wire_flush();
    atomic_store(&is_recording, false);
    pthread_mutex_unlock(&lock);
}

/* A forked child is another program; only its parent is recorded. */
static void stop_in_child(void)
{
    atomic_store(&is_recording, false);
}

static void count_child(void)
{
    if (recording())
        atomic_fetch_add(&children, 1);
}

static void check_host(const struct qemu_info *info)
{
    struct utsname host;
    if (info->system_emulation)
        fatal("this plugin records user programs: use qemu-%s, not qemu-system", info->target_name);
    if (uname(&host) != 0 || strcmp(host.machine, info->target_name) != 0)
        fatal("the program is for %s and this machine is %s; they must be the same",
              info->target_name, host.machine);
    if (sysconf(_SC_PAGESIZE) != (long)PAGE_BYTES)
        fatal("this machine has pages of %ld bytes; only 4096 is supported", sysconf(_SC_PAGESIZE));
}

static const char *value_of(const char *argument, const char *key)
{
    size_t length = strlen(key);
    return strncmp(argument, key, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                          : NULL;
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
    const char *socket_path = NULL, *value;
    uint64_t llc_bytes = 0, llc_ways = 0;
    for (int i = 0; i < argc; i++) {
        if ((value = value_of(argv[i], "socket")))
            socket_path = value;
        else if ((value = value_of(argv[i], "window")))
            window_instructions = strtoull(value, NULL, 10);
        else if ((value = value_of(argv[i], "llc_bytes")))
            llc_bytes = strtoull(value, NULL, 10);
        else if ((value = value_of(argv[i], "llc_ways")))
            llc_ways = strtoull(value, NULL, 10);
        else if ((value = value_of(argv[i], "objects")) && strcmp(value, "on") == 0)
            objects_follow();
        else if ((value = value_of(argv[i], "layout")) && strcmp(value, "kernel") == 0)
            layout_follow_kernel();
        else
            fatal("unknown argument %s; known: socket, window, llc_bytes, llc_ways, objects=on, "
                  "layout=kernel",
                  argv[i]);
    }
    if (!socket_path || window_instructions == 0)
        fatal("socket=PATH and window=INSTRUCTIONS are needed");
    check_host(info);
    exec_init(argc, argv, info->target_name, hand_over);
    const char *wrong = window_init(llc_bytes, (uint32_t)llc_ways);
    if (wrong)
        fatal("llc_bytes=%lu, llc_ways=%lu: %s", llc_bytes, llc_ways, wrong);

    /* Requests before the start of the recording wait for the lock. */
    pthread_mutex_lock(&lock);
    wire_open(socket_path, cut_now);
    struct wire_hello hello = {.magic = "TWRH",
                               .version = WIRE_VERSION,
                               .page_bytes = PAGE_BYTES,
                               .pid = (uint32_t)getpid()};
    wire_append(&message, &hello, sizeof hello);
    wire_send(&message);
    atomic_store(&is_recording, true);
    pthread_mutex_unlock(&lock);
    pthread_atfork(NULL, count_child, stop_in_child);
    qemu_plugin_register_vcpu_init_cb(id, on_thread);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
    qemu_plugin_register_atexit_cb(id, on_exit_of_guest, NULL);
    return 0;
}
