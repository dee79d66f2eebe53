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
 *   rates=N,N,...    requests per second, step by step, whether the store answers or not, instead
 *           of requests=: an open loop (kvpace.h). At most `pipeline` are on their way
 *   step_s=N         seconds of a step (10)
 *   seed=N           of the keys and of the times between arrivals (Marsaglia's)
 *
 * It prints a JSON line after loading and one at the end: requests, seconds, the numbers of wrong
 * and missing values, and percentiles of the time from sending a batch to reading an answer. In an
 * open loop it prints one per second meanwhile, and one per step at the end; their times count from
 * the intended arrival. SIGTERM ends it after the current batch. The status is 1 if a value was
 * wrong or missing. No other client may write the keys meanwhile.
 */
#define _GNU_SOURCE /* ppoll */
#include <signal.h>

#include "common.h"
#include "kvdraw.h"
#include "kvpace.h"
#include "kvtally.h"
#include "kvwire.h"

/* Limit of requests per batch; the answers' sizes limit it further. */
#define MAX_PIPELINE 1024

struct options {
    long port, keys, value_bytes, requests, load, reads, theta, hot_keys, hot_requests, pipeline,
        step_s, seed;
    int memcached, hotspot;
    const char *socket;
    char *rates;
};

/* Requests without an answer yet, in the order in which they were sent. */
struct sent {
    struct request request[MAX_PIPELINE];
    struct arrival arrival[MAX_PIPELINE];
    long first, count;
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
        {"pipeline", &options->pipeline, 1, MAX_PIPELINE},
        {"step_s", &options->step_s, 1, 86400},
        {"seed", &options->seed, 1, INT64_MAX}};
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
         "hot_keys, hot_requests, pipeline, rates, step_s, seed",
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
    else if (strcmp(word, "rates") == 0)
        options->rates = value;
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
                              .pipeline = 8,
                              .step_s = 10,
                              .seed = RANDOM_SEED};
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

static struct request drawn_request(const struct options *options, struct draw *draw)
{
    uint32_t key = draw_key(draw);
    int is_read = random_next(&draw->seed) % 100 < (uint64_t)options->reads;
    return (struct request){.key = key, .is_read = is_read};
}

static void run(const struct options *options, struct client *client, struct draw *draw,
                struct tally *tally)
{
    struct request requests[MAX_PIPELINE];
    double start = now_s();
    while (tally->requests < options->requests && !ended) {
        for (long i = 0; i < options->pipeline; i++)
            requests[i] = drawn_request(options, draw);
        do_batch(client, requests, options->pipeline, tally);
    }
    tally->seconds = now_s() - start;
}

/* Sends the requests that have arrived, as far as they may be on their way. */
static void send_arrived(const struct options *options, struct client *client, struct draw *draw,
                         struct pace *pace, struct sent *sent)
{
    double now = now_s();
    while (has_arrivals(pace) && pace->next.at <= now && sent->count < options->pipeline) {
        long last = (sent->first + sent->count++) % MAX_PIPELINE;
        sent->request[last] = drawn_request(options, draw);
        sent->arrival[last] = pace->next;
        send_request(client, &sent->request[last]);
        draw_arrival(pace);
    }
    flush(&client->connection);
}

static void run_paced(const struct options *options, struct client *client, struct draw *draw,
                      struct pace *pace, struct tally *tally)
{
    static struct sent sent;
    const struct connection *connection = &client->connection;
    start_pace(pace);
    while (now_s() < pace->ends && !ended) {
        send_arrived(options, client, draw, pace, &sent);
        if (connection->in_end > connection->in_start ||
            wait_for_answer(pace, connection->descriptor, sent.count < options->pipeline)) {
            take_answer(client, &sent.request[sent.first], tally);
            double now = now_s();
            count_answer(pace, &sent.arrival[sent.first], now);
            count_latency(tally, now - sent.arrival[sent.first].at);
            tally->requests++;
            sent.first = (sent.first + 1) % MAX_PIPELINE;
            sent.count--;
        }
        report_second(pace, now_s());
    }
    tally->seconds = now_s() - pace->began;
    for (; sent.count > 0; sent.count--, sent.first = (sent.first + 1) % MAX_PIPELINE)
        count_unanswered(pace, &sent.arrival[sent.first]);
    for (; has_arrivals(pace); draw_arrival(pace))
        count_unanswered(pace, &pace->next);
    for (size_t step = 0; step < pace->steps; step++)
        report_step(pace, step);
}

/* Fills the schedule from the option `rates`. */
static void read_rates(const struct options *options, struct pace *pace)
{
    pace->step_s = (double)options->step_s;
    /* Not the seed of the keys, which must not depend on the times. */
    pace->seed = ~(uint64_t)options->seed;
    for (char *rest = options->rates, *word; (word = strsep(&rest, ","));) {
        if (pace->steps == MAX_STEPS)
            fail("rates: there are more than %d", MAX_STEPS);
        pace->step[pace->steps++].rate = (double)number_of("rates", word, 1);
    }
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
                        .seed = (uint64_t)options.seed,
                        .up_to =
                            options.hotspot ? NULL : zipfian_weights(options.keys, options.theta)};
    if (options.load) {
        load(&options, &client, &loaded);
        report("load", &loaded);
    }
    if (options.rates) {
        static struct pace pace;
        read_rates(&options, &pace);
        run_paced(&options, &client, &draw, &pace, &ran);
        report("run", &ran);
    } else if (options.requests) {
        run(&options, &client, &draw, &ran);
        report("run", &ran);
    }
    return ran.wrong || ran.missing ? 1 : 0;
}
