/*
 * The memory that the counting plugin and the guest's allocator hook share.
 *
 * QEMU's user-mode emulation gives the guest the host's addresses (guest_base is 0), so the hook
 * reads and writes the plugin's memory directly. It asks for the address by a system call that no
 * kernel has.
 */
#ifndef TRUTH_SHARED_H
#define TRUTH_SHARED_H

#include <stdint.h>

/* A number far above every kernel's: the kernel answers ENOSYS, the plugin fills in the address. */
#define TRUTH_SYSCALL 0x7EA5
/* The first argument, and what the second is: where the address of the shared memory goes, nothing,
 * an address whose chunk is missing. */
enum { TRUTH_ADDRESS, TRUTH_COUNT, TRUTH_CHUNK };

/* Both of CPython's allocators align blocks to 16 bytes, so no granule belongs to two blocks. */
#define GRANULE_SHIFT 4
/* A chunk is a part of the address space whose counters are allocated together: 2 MiB. */
#define CHUNK_SHIFT 21
#define CHUNK_GRANULES (1u << (CHUNK_SHIFT - GRANULE_SHIFT))
#define CHUNK_PAGES (1u << (CHUNK_SHIFT - 12))
#define CHUNKS (UINT64_C(1) << (47 - CHUNK_SHIFT))
#define WINDOWS 2

struct counts {
    uint32_t accesses;
    uint32_t misses;
};

struct chunk {
    /* Since the block's allocation or the window's start, whichever is later. */
    struct counts granules[CHUNK_GRANULES];
    struct counts pages[WINDOWS][CHUNK_PAGES];
    /* The part of `pages` that belongs to blocks that were freed. */
    struct counts freed[WINDOWS][CHUNK_PAGES];
    /* The record of the block that starts at this granule, from 1; 0 for none. */
    uint32_t blocks[CHUNK_GRANULES];
};

struct shared {
    /* The plugin counts while this is 1. */
    uint32_t counting;
    /* The window that is counted. */
    uint32_t window;
    /* 1 once every access is seen. */
    uint32_t ready;
    /* Accesses and misses that were counted. */
    uint64_t accesses;
    uint64_t misses;
    /* CHUNKS pointers, NULL for parts of the address space without accesses or blocks. */
    struct chunk **chunks;
};

#endif
