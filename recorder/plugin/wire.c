/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "grow.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct wire_buffer pending; /* guarded by lock; length 0 = nothing to send */
static bool connected;             /* guarded by lock */
static atomic_bool is_open = true;
static int stream = -1; /* a number in the private table of the two threads below */
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static void (*cut_requested)(void);

void wire_append(struct wire_buffer *buffer, const void *bytes, size_t length)
{
    if (length == 0)
        return;
    GROW(buffer->bytes, buffer->capacity, buffer->length + length);
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

/* Reads requests: each byte 'C' closes the window now. */
static void *control_main(void *unused)
{
    char request;
    while (recv(stream, &request, 1, 0) == 1) {
        if (request == 'C')
            cut_requested();
    }
    return unused;
}

static bool send_all(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(stream, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static void connect_privately(void)
{
    /* Closes everything but stderr, which is for messages. Kernels before 5.9 lack close_range, and
     * the copies stay open there.
     */
    if (syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_UNSHARE) != 0 && unshare(CLONE_FILES) != 0)
        fatal("cannot get a private descriptor table: %s", strerror(errno));
    stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    close(0);
    close(1);
    if (stream < 0 || connect(stream, (struct sockaddr *)&address, sizeof address) != 0)
        fatal("cannot connect to %s: %s", address.sun_path, strerror(errno));
    pthread_t control;
    if (pthread_create(&control, NULL, control_main, NULL) != 0)
        fatal("cannot start a thread");
}

static void *sender_main(void *unused)
{
    connect_privately();
    struct wire_buffer sending = {0};
    pthread_mutex_lock(&lock);
    connected = true;
    pthread_cond_broadcast(&changed);
    for (;;) {
        while (pending.length == 0)
            pthread_cond_wait(&changed, &lock);
        sending = pending;
        pthread_mutex_unlock(&lock);
        if (!send_all(sending.bytes, sending.length))
            atomic_store(&is_open, false);
        pthread_mutex_lock(&lock);
        pending.length = 0;
        pthread_cond_broadcast(&changed);
    }
    return unused;
}

void wire_open(const char *socket_path, void (*on_cut)(void))
{
    if (strlen(socket_path) >= sizeof address.sun_path)
        fatal("the socket path %s is longer than %zu bytes", socket_path,
              sizeof address.sun_path - 1);
    strcpy(address.sun_path, socket_path);
    cut_requested = on_cut;
    /* The guest's signals must reach the guest's threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t sender;
    if (pthread_create(&sender, NULL, sender_main, NULL) != 0)
        fatal("cannot start a thread");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&lock);
    while (!connected)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void wire_send(struct wire_buffer *buffer)
{
    pthread_mutex_lock(&lock);
    while (pending.length != 0)
        pthread_cond_wait(&changed, &lock);
    struct wire_buffer empty = pending;
    pending = *buffer;
    *buffer = empty;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void wire_flush(void)
{
    pthread_mutex_lock(&lock);
    while (pending.length != 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

bool wire_is_open(void)
{
    return atomic_load(&is_open);
}
