/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stream to the recording process, described in recorder/README.md ("The wire").
 *
 * A separate thread sends it. That thread has a private table of file descriptors. A guest that
 * closes all descriptors, forks or executes therefore does not affect the stream, and the guest's
 * descriptors get the numbers that they would get without a recorder.
 */
#ifndef TIERWISE_WIRE_H
#define TIERWISE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It changes with every change of the messages; the recording process refuses other versions. */
#define WIRE_VERSION 3

enum wire_page_kind { WIRE_ANON = 0, WIRE_FILE = 1 };

/* Why a window ended. */
enum wire_reason { WIRE_FULL = 0, WIRE_CUT = 1, WIRE_EXIT = 2 };

struct wire_hello {
    char magic[4]; /* "TWRH" */
    uint32_t version;
    uint32_t page_bytes;
    uint32_t pid;
};

struct wire_window {
    char magic[4]; /* "TWRW" */
    uint32_t reason;
    uint64_t instructions;
    uint32_t threads, allocations, accesses, unmaps,
        heats;        /* lengths of the lists that follow, in this order */
    uint32_t objects; /* alive at the window's end, if they are followed */
};

struct wire_thread {
    uint32_t thread;
    uint32_t zero;
    uint64_t instructions;
};

struct wire_allocation {
    uint64_t vpn;
    uint32_t page;
    uint16_t thread;
    uint8_t kind;
    uint8_t order;
};

struct wire_access {
    uint32_t page;
    uint32_t loads, stores;
    uint32_t load_misses, store_misses;
    uint16_t supervised;
    uint16_t thread;
};

/* The hotness of a page's objects, in sixteenths. */
struct wire_heat {
    uint32_t page;
    uint32_t hotness;
};

/* The program executes another; the new process connects again. */
struct wire_exec {
    char magic[4];     /* "TWRX" */
    uint32_t bytes;    /* length of the path that follows */
    uint64_t children; /* forked since the last exec, and not recorded */
};

struct wire_end {
    char magic[4];     /* "TWRE" */
    uint32_t children; /* forked since the last exec, and not recorded */
    uint64_t instructions;
};

_Static_assert(sizeof(struct wire_hello) == 16, "as documented");
_Static_assert(sizeof(struct wire_window) == 40, "as documented");
_Static_assert(sizeof(struct wire_thread) == 16, "as documented");
_Static_assert(sizeof(struct wire_allocation) == 16, "as documented");
_Static_assert(sizeof(struct wire_access) == 24, "as documented");
_Static_assert(sizeof(struct wire_heat) == 8, "as documented");
_Static_assert(sizeof(struct wire_exec) == 16, "as documented");
_Static_assert(sizeof(struct wire_end) == 16, "as documented");

/* A message under construction. */
struct wire_buffer {
    char *bytes;
    size_t length, capacity;
};

void wire_append(struct wire_buffer *buffer, const void *bytes, size_t length);

/* Connects to the recording process's socket; `on_cut` runs on a separate thread at each
 * request. */
void wire_open(const char *socket_path, void (*on_cut)(void));

/* Passes a message to the sender and empties the buffer. It waits until the previous message has
 * been sent.
 */
void wire_send(struct wire_buffer *buffer);

/* Waits until all passed messages have been sent. */
void wire_flush(void);

/* Returns false after the recording process has exited. */
bool wire_is_open(void);

#endif
