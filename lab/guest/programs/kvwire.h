/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kvload's protocols to a store: RESP or Memcached's text protocol, with values that can be
 * checked. */
#ifndef TIERWISE_LAB_KVWIRE_H
#define TIERWISE_LAB_KVWIRE_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common.h"

/* Bytes beside the value: the key twice, lengths and protocol words. */
#define FRAME_BYTES 160UL
/*
 * Limit of a batch's bytes: about half of the smallest buffer that Linux gives a socket (208 KiB),
 * because neither side reads while it writes.
 */
#define BATCH_BYTES (96UL << 10)
#define KEY_BYTES 32
/* Key and version in front of every value. */
#define HEAD_BYTES 22
/* The version of a key that this client has not read: it accepts the first version that it
 * reads. */
#define UNSEEN UINT32_MAX

struct connection {
    int descriptor;
    char *out, *in;
    size_t out_length, in_start, in_end, in_size;
};

/* A store, and this client's knowledge of its keys. */
struct client {
    struct connection connection;
    int memcached;
    size_t value_bytes;
    uint32_t *versions; /* the version of each key that was written last */
};

struct request {
    uint32_t key;
    int is_read;
    uint32_t version; /* that a read must return: of the last write before it, not of later ones */
};

/* Connects to a Unix socket, or without one to a port of 127.0.0.1. */
static inline int connected(const char *path, long port)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in remote = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (path && strlen(path) >= sizeof local.sun_path)
        fail("socket: '%s' is longer than a socket's name may be", path);
    if (path)
        strcpy(local.sun_path, path);
    const struct sockaddr *address = path ? (struct sockaddr *)&local : (struct sockaddr *)&remote;
    socklen_t length = path ? sizeof local : sizeof remote;
    int descriptor = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || connect(descriptor, address, length) != 0) {
        if (path)
            fail("socket %s: %s", path, strerror(errno));
        fail("port %ld of 127.0.0.1: %s", port, strerror(errno));
    }
    int on = 1;
    if (!path && setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("TCP_NODELAY: %s", strerror(errno));
    return descriptor;
}

static inline void flush(struct connection *connection)
{
    for (size_t sent = 0; sent < connection->out_length;) {
        ssize_t length =
            write(connection->descriptor, connection->out + sent, connection->out_length - sent);
        if (length < 0 && errno != EINTR)
            fail("writing to the store: %s", strerror(errno));
        sent += length > 0 ? (size_t)length : 0;
    }
    connection->out_length = 0;
}

/* Reads until this many unread bytes have arrived. */
static inline void have(struct connection *connection, size_t bytes)
{
    if (connection->in_start + bytes > connection->in_size) {
        memmove(connection->in, connection->in + connection->in_start,
                connection->in_end - connection->in_start);
        connection->in_end -= connection->in_start;
        connection->in_start = 0;
    }
    while (connection->in_end - connection->in_start < bytes) {
        ssize_t length = read(connection->descriptor, connection->in + connection->in_end,
                              connection->in_size - connection->in_end);
        if (length == 0)
            fail("the store closed the connection");
        if (length < 0 && errno != EINTR)
            fail("reading from the store: %s", strerror(errno));
        connection->in_end += length > 0 ? (size_t)length : 0;
    }
}

/* Returns the next line without its end. It is valid until the following call. */
static inline const char *line(struct connection *connection)
{
    size_t length = 0;
    char *end;
    for (;;) {
        have(connection, length + 1);
        length = connection->in_end - connection->in_start;
        end = memchr(connection->in + connection->in_start, '\n', length);
        if (end)
            break;
        if (length > FRAME_BYTES)
            fail("the store answered with a line of more than %lu bytes", FRAME_BYTES);
    }
    char *start = connection->in + connection->in_start;
    connection->in_start = (size_t)(end + 1 - connection->in);
    if (end > start && end[-1] == '\r')
        end--;
    *end = '\0';
    return start;
}

/* Returns the byte that fills a value after its head. */
static inline char filling(uint32_t key, uint32_t version)
{
    return (char)('a' + (key + version) % 26);
}

static inline size_t put_value(char *at, uint32_t key, uint32_t version, size_t bytes)
{
    /* snprintf's terminating zero is overwritten by the filling. */
    snprintf(at, HEAD_BYTES + 1, "%010u:%010u:", key, version);
    memset(at + HEAD_BYTES, filling(key, version), bytes - HEAD_BYTES);
    return bytes;
}

/* True if a value is complete, belongs to this key, and has the version that was written before. */
static inline int is_right(struct client *client, const char *value, size_t bytes,
                           const struct request *request)
{
    uint32_t key = request->key, *known = &client->versions[key];
    char head[HEAD_BYTES + 1];
    if (bytes != client->value_bytes)
        return 0;
    memcpy(head, value, HEAD_BYTES);
    head[HEAD_BYTES] = '\0';
    unsigned long found = strtoul(head, NULL, 10),
                  version = strtoul(head + HEAD_BYTES / 2, NULL, 10);
    if (*known == UNSEEN)
        *known = (uint32_t)version;
    if (request->version != UNSEEN && version != request->version)
        return 0;
    const char *rest = value + HEAD_BYTES;
    return found == key && rest[0] == filling(key, (uint32_t)version) &&
           memcmp(rest, rest + 1, bytes - HEAD_BYTES - 1) == 0;
}

static inline void send_request(struct client *client, struct request *request)
{
    struct connection *connection = &client->connection;
    char *at = connection->out + connection->out_length, *start = at, key[KEY_BYTES];
    int key_length = snprintf(key, sizeof key, "user%010u", request->key);
    size_t bytes = client->value_bytes;
    uint32_t *version = &client->versions[request->key];
    if (request->is_read) {
        request->version = *version;
        if (client->memcached)
            at += sprintf(at, "get %s\r\n", key);
        else
            at += sprintf(at, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", key_length, key);
    } else {
        if (client->memcached)
            at += sprintf(at, "set %s 0 0 %zu\r\n", key, bytes);
        else
            at += sprintf(at, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", key_length, key, bytes);
        /* Below UNSEEN, and shown in ten digits. */
        *version = *version == UNSEEN ? 1 : (*version + 1) % 1000000000;
        at += put_value(at, request->key, *version, bytes);
        at += sprintf(at, "\r\n");
    }
    connection->out_length += (size_t)(at - start);
}

/* Reads the answer to a read, and returns the value in the connection's buffer; NULL if there is
 * none. */
static inline const char *read_value(struct client *client, size_t *bytes)
{
    struct connection *connection = &client->connection;
    const char *first = line(connection), *digits = first + 1;
    int memcached = client->memcached;
    if (strcmp(first, memcached ? "END" : "$-1") == 0)
        return NULL;
    if (memcached ? strncmp(first, "VALUE ", 6) != 0 : first[0] != '$')
        fail("the store answered a read with '%s'", first);
    if (memcached)
        digits = strrchr(first, ' ') + 1;
    *bytes = (size_t)number_of("length of a value", digits, 0);
    size_t after = memcached ? strlen("\r\nEND\r\n") : strlen("\r\n");
    if (*bytes + after > connection->in_size)
        fail("the store answered with a value of %zu bytes; %zu were written", *bytes,
             client->value_bytes);
    have(connection, *bytes + after);
    const char *value = connection->in + connection->in_start;
    connection->in_start += *bytes + after;
    return value;
}

#endif
