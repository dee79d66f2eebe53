/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * lockmm MIB [NODE]: a program without privileges whose address space stays locked. It touches MIB
 * of anonymous memory and a page of a FUSE file, and maps that file once more, for direct I/O. For
 * that the kernel first writes the dirty page back, under the mmap lock (fuse_file_mmap,
 * fs/fuse/file.c); the file system, which is the program's own, never answers the write.
 *
 * A process that then reads /proc/PID/maps, walks its page tables or moves its pages waits for the
 * lock. A child takes the lock: on SIGUSR1, or, with NODE, while another process moves its memory,
 * which is on that node and in use. It prints its process id at its start, and "locks" just before
 * it takes the lock. Its parent serves the file, and the lock ends with the parent.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "common.h"

/* The user of this program in the guest; any user but root serves. */
#define NOBODY 65534
#define FILE_NODE 2
#define ROOM (256 * 1024)

/* One page of this many is queried: some hundred pages in one call. */
#define ASKED_BYTES (256UL << 10)
/* Longest time between the first moved page and the lock: the duration of several move calls. The
 * time differs from run to run, so that locks coincide with every step of a mover. */
#define MOVING_US 10000

static void write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        fail("%s: cannot write '%s': %s", path, text, strerror(errno));
    close(file);
}

static void answer(int device, uint64_t unique, int error, const void *body, size_t bytes)
{
    static char out[ROOM];
    struct fuse_out_header head = {.len = sizeof head + bytes, .error = error, .unique = unique};
    memcpy(out, &head, sizeof head);
    if (bytes)
        memcpy(out + sizeof head, body, bytes);
    /* The kernel has dropped a request that was interrupted meanwhile. */
    if (write(device, out, head.len) < 0 && errno != ENOENT)
        fail("/dev/fuse: cannot answer: %s", strerror(errno));
}

static struct fuse_attr attributes(uint64_t node)
{
    mode_t mode = node == FILE_NODE ? S_IFREG | 0600 : S_IFDIR | 0700;
    return (struct fuse_attr){.ino = node,
                              .size = PAGE_BYTES,
                              .blocks = 8,
                              .mode = mode,
                              .nlink = 1,
                              .blksize = PAGE_BYTES};
}

/* Serves a directory with one file, and answers everything but a write. */
static _Noreturn void serve(int device)
{
    static char in[ROOM], zeros[PAGE_BYTES];
    int opened = 0;
    for (;;) {
        ssize_t bytes = read(device, in, sizeof in);
        if (bytes < 0 && errno != EINTR && errno != ENOENT)
            exit(0);
        if (bytes < (ssize_t)sizeof(struct fuse_in_header))
            continue;
        struct fuse_in_header *head = (void *)in;
        switch (head->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                        .minor = FUSE_KERNEL_MINOR_VERSION,
                                        .max_readahead = PAGE_BYTES,
                                        .max_write = PAGE_BYTES};
            answer(device, head->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = {.nodeid = FILE_NODE,
                                         .entry_valid = 3600,
                                         .attr_valid = 3600,
                                         .attr = attributes(FILE_NODE)};
            answer(device, head->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(head->nodeid)};
            answer(device, head->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = {.fh = 1, .open_flags = opened++ ? FOPEN_DIRECT_IO : 0};
            answer(device, head->unique, 0, &out, sizeof out);
            break;
        }
        case FUSE_READ:
            answer(device, head->unique, 0, zeros, sizeof zeros);
            break;
        case FUSE_WRITE:
        case FUSE_FORGET:
            break;
        default:
            answer(device, head->unique, -ENOSYS, NULL, 0);
        }
    }
}

/* Uses memory until one of its pages is no longer on the node. */
static void use_until_moved(const char *memory, size_t bytes, int node)
{
    static void *addresses[PAGES_PER_CALL];
    static int status[PAGES_PER_CALL];
    size_t asked = 0;
    for (size_t at = 0; at < bytes && asked < PAGES_PER_CALL; at += ASKED_BYTES)
        addresses[asked++] = (void *)(memory + at);
    for (;;) {
        for (size_t at = 0; at < bytes; at += PAGE_BYTES)
            (void)*(const volatile char *)(memory + at);
        if (syscall(SYS_move_pages, 0, asked, addresses, NULL, status, 0) < 0)
            fail("move_pages: %s", strerror(errno));
        for (size_t i = 0; i < asked; i++) {
            if (status[i] >= 0 && status[i] != node)
                return;
        }
    }
}

static _Noreturn void lock(size_t bytes, int node)
{
    const char *memory = allocate(bytes, node, 0);
    int file = open("/mnt/file", O_RDWR);
    if (file < 0)
        fail("/mnt/file: %s", strerror(errno));
    char *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        fail("mmap of /mnt/file: %s", strerror(errno));
    int direct = open("/mnt/file", O_RDWR);
    if (direct < 0)
        fail("/mnt/file, for direct I/O: %s", strerror(errno));
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &asked, NULL);
    printf("%d\n", getpid());
    fflush(stdout);
    if (node < 0) {
        int number;
        sigwait(&asked, &number);
    } else {
        use_until_moved(memory, bytes, node);
        uint64_t seed = (uint64_t)(now_s() * 1e9) | 1;
        usleep((useconds_t)(random_next(&seed) % MOVING_US));
    }
    printf("locks\n");
    fflush(stdout);
    /* The page is dirtied last, because the kernel soon writes it back without the lock. */
    page[0] = 1;
    errno = 0;
    mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, direct, 0);
    fail("the address space was not locked: %s", strerror(errno));
}

static void child_ended(int signal)
{
    (void)signal;
    _exit(2);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3)
        fail("use: lockmm MIB [NODE]");
    size_t bytes = (size_t)number_of("MIB", argv[1], 1) * MIB;
    int node = argc == 3 ? (int)number_of("NODE", argv[2], 0) : -1;
    if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_DUMPABLE, 1))
        fail("cannot drop privileges: %s", strerror(errno));
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
        fail("unshare: %s", strerror(errno));
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", "0 65534 1");
    write_text("/proc/self/gid_map", "0 65534 1");
    int device = open("/dev/fuse", O_RDWR);
    if (device < 0)
        fail("/dev/fuse: %s", strerror(errno));
    char options[64];
    snprintf(options, sizeof options, "fd=%d,rootmode=40700,user_id=0,group_id=0", device);
    if (mount("lockmm", "/mnt", "fuse", 0, options))
        fail("mount of a FUSE file system at /mnt: %s", strerror(errno));
    signal(SIGCHLD, child_ended);
    if (fork() == 0) {
        close(device);
        /* The child may still wait for the signal when its parent is stopped. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lock(bytes, node);
    }
    serve(device);
}
