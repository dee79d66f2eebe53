/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvload OPTION=VALUE...: loads a key-value store and drives it, after YCSB (Cooper et al., SoCC
 * 2010): it has one connection, sends requests in small batches, and checks every value read
 * against the value written.
 *
 *   store=redis      redis (RESP) | memcached (its text protocol)
 *   port=N           on 127.0.0.1 (6379 or 11211), or
 *   socket=PATH      a Unix socket
 *   keys=N           (needed)
 *   value_bytes=N    (1000: YCSB's ten fields of 100)
 *   requests=N       after loading (0: only load); a batch is not cut
 *   load=0           the keys are there already
 *   reads=N          reads of 100 requests (95: YCSB's workload B); the others replace a value
 *   draw=zipfian     zipfian: YCSB's, over all keys; hotspot: some keys have most requests
 *   theta=N          zipfian's exponent in hundredths (99)
 *   hot_keys=N       hotspot: of 100 keys those loaded last, which have most requests (20)
 *   hot_requests=N   hotspot: of 100 requests those that go to hot keys (90)
 *   pipeline=N       requests sent before their answers are read (8)
 *
 * It prints a JSON line after loading and one at the end: requests, seconds, the numbers of wrong
 * and missing values, and percentiles of the time from sending a batch to reading an answer.
 * SIGTERM ends it after the current batch. The status is 1 if a value was wrong or missing. No
 * other client may write the keys meanwhile.
 */
#include <signal.h>

#include "common.h"
#include "kvdraw.h"
#include "kvtally.h"
#include "kvwire.h"

/* Limit of requests per batch; the answers' sizes limit it further. */
#define MAX_PIPELINE 1024

struct options {
    long port, keys, value_bytes, requests, load, reads, theta, hot_keys, hot_requests, pipeline;
    int memcached, hotspot;
    const char *socket;
};

static volatile sig_atomic_t ended;

static void on_term(int number)
{
    (void)number;
    ended = 1;
}

static void read_number(struct options *options, const char *name, const char *value)
{
    struct {
        const char *name;
        long *value, least, most;
    } numbers[] = {
        {"port", &options->port, 1, 65535},
        {"keys", &options->keys, 1, 100000000},
        {"value_bytes", &options->value_bytes, HEAD_BYTES + 2, BATCH_BYTES - FRAME_BYTES},
        {"requests", &options->requests, 0, INT64_MAX},
        {"load", &options->load, 0, 1},
        {"reads", &options->reads, 0, 100},
        {"theta", &options->theta, 1, 99},
        {"hot_keys", &options->hot_keys, 1, 100},
        {"hot_requests", &options->hot_requests, 0, 100},
        {"pipeline", &options->pipeline, 1, MAX_PIPELINE}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        *numbers[i].value = number_of(name, value, numbers[i].least);
        if (*numbers[i].value > numbers[i].most)
            fail("%s: '%s' is more than %ld", name, value, numbers[i].most);
        return;
    }
    fail("'%s' is no option; one of: store, port, socket, keys, value_bytes, requests, load, "
         "reads, draw, theta, "
         "hot_keys, hot_requests, pipeline",
         name);
}

/* True if the value is the second of two words. */
static int is_second(const char *name, const char *value, const char *first, const char *second)
{
    if (strcmp(value, first) != 0 && strcmp(value, second) != 0)
        fail("%s: '%s' is not one of %s, %s", name, value, first, second);
    return strcmp(value, second) == 0;
}

static void read_option(struct options *options, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        fail("'%s' is no option: OPTION=VALUE is expected, for example keys=10000", word);
    *value++ = '\0';
    if (strcmp(word, "store") == 0)
        options->memcached = is_second(word, value, "redis", "memcached");
    else if (strcmp(word, "draw") == 0)
        options->hotspot = is_second(word, value, "zipfian", "hotspot");
    else if (strcmp(word, "socket") == 0)
        options->socket = value;
    else
        read_number(options, word, value);
}

static struct options options_of(int count, char **words)
{
    struct options options = {.value_bytes = 1000,
                              .load = 1,
                              .reads = 95,
                              .theta = 99,
                              .hot_keys = 20,
                              .hot_requests = 90,
                              .pipeline = 8};
    for (int i = 1; i < count; i++)
        read_option(&options, words[i]);
    if (options.keys == 0)
        fail("keys is needed, for example: kvload store=redis keys=10000 requests=100000");
    if ((size_t)options.pipeline * ((size_t)options.value_bytes + FRAME_BYTES) > BATCH_BYTES)
        fail("pipeline=%ld values of value_bytes=%ld are more than the %lu bytes that a batch may "
             "hold",
             options.pipeline, options.value_bytes, BATCH_BYTES);
    if (options.port == 0)
        options.port = options.memcached ? 11211 : 6379;
    return options;
}

static void take_answer(struct client *client, const struct request *request, struct tally *tally)
{
    if (request->is_read) {
        size_t bytes;
        const char *value = read_value(client, &bytes);
        tally->reads++;
        if (!value)
            tally->missing++;
        else if (!is_right(client, value, bytes, request))
            tally->wrong++;
        return;
    }
    const char *printed = line(&client->connection);
    if (strcmp(printed, client->memcached ? "STORED" : "+OK") != 0)
        fail("the store answered a write with '%s'", printed);
}

static void do_batch(struct client *client, struct request *requests, long count,
                     struct tally *tally)
{
    for (long i = 0; i < count; i++)
        send_request(client, &requests[i]);
    double sent = now_s();
    flush(&client->connection);
    for (long i = 0; i < count; i++) {
        take_answer(client, &requests[i], tally);
        count_latency(tally, now_s() - sent);
        tally->requests++;
    }
}

static void load(const struct options *options, struct client *client, struct tally *tally)
{
    struct request requests[MAX_PIPELINE];
    double start = now_s();
    for (long key = 0; key < options->keys && !ended;) {
        long count = 0;
        while (count < options->pipeline && key < options->keys)
            requests[count++] = (struct request){.key = (uint32_t)key++};
        do_batch(client, requests, count, tally);
    }
    tally->seconds = now_s() - start;
}

static void run(const struct options *options, struct client *client, struct draw *draw,
                struct tally *tally)
{
    struct request requests[MAX_PIPELINE];
    double start = now_s();
    while (tally->requests < options->requests && !ended) {
        for (long i = 0; i < options->pipeline; i++) {
            requests[i].key = draw_key(draw);
            requests[i].is_read = random_next(&draw->seed) % 100 < (uint64_t)options->reads;
        }
        do_batch(client, requests, options->pipeline, tally);
    }
    tally->seconds = now_s() - start;
}

static struct client client_of(const struct options *options)
{
    size_t keys = (size_t)options->keys;
    /* A read buffer of two batches, so that the rest of a batch is seldom moved to the front. */
    struct client client = {.memcached = options->memcached,
                            .value_bytes = (size_t)options->value_bytes,
                            .versions = malloc(keys * sizeof *client.versions),
                            .connection = {.out = malloc(BATCH_BYTES),
                                           .in = malloc(2 * BATCH_BYTES),
                                           .in_size = 2 * BATCH_BYTES}};
    if (!client.versions || !client.connection.out || !client.connection.in)
        fail("out of memory for %zu keys", keys);
    for (size_t key = 0; key < keys; key++)
        client.versions[key] = UNSEEN;
    client.connection.descriptor = connected(options->socket, options->port);
    return client;
}

int main(int count, char **words)
{
    struct options options = options_of(count, words);
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    /* A store that has exited is an error of write(), which reports it. */
    signal(SIGPIPE, SIG_IGN);
    static struct tally loaded, ran;
    struct client client = client_of(&options);
    struct draw draw = {.keys = (uint64_t)options.keys,
                        .hot_keys = (uint64_t)options.hot_keys,
                        .hot_requests = (uint64_t)options.hot_requests,
                        .seed = RANDOM_SEED,
                        .up_to =
                            options.hotspot ? NULL : zipfian_weights(options.keys, options.theta)};
    if (options.load) {
        load(&options, &client, &loaded);
        report("load", &loaded);
    }
    if (options.requests) {
        run(&options, &client, &draw, &ran);
        report("run", &ran);
    }
    return ran.wrong || ran.missing ? 1 : 0;
}
