/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * kvload's open loop: requests arrive by a schedule, whether the store has answered or not, as
 * those of many independent users do. A latency counts from the intended arrival, so a request
 * that waits for its turn is late, and a store that stands still is late for all of them.
 *
 * Requests beyond `pipeline` wait in the client: neither side reads while it writes, so the
 * sockets' buffers must hold what is on its way.
 */
#ifndef TIERWISE_LAB_KVPACE_H
#define TIERWISE_LAB_KVPACE_H

#include <poll.h>

#include "kvtally.h"
#include "kvwire.h"

#define MAX_STEPS 32
#define NS_PER_S 1000000000L

/* A part of the schedule. */
struct step {
    double rate;     /* requests per second */
    long unanswered; /* of those that arrived in it, at the schedule's end */
    struct tally tally;
};

/* A request that has arrived. */
struct arrival {
    double at; /* seconds of the clock */
    size_t step;
};

struct pace {
    size_t steps;
    double step_s, began, ends;
    struct step step[MAX_STEPS];
    struct arrival next;
    struct tally second; /* answers since the last report */
    double second_ends;
    uint64_t seed;
};

/* Returns the natural logarithm of a number above 0 and up to 1. */
static inline double natural_log(double number)
{
    double log = 0;
    for (; number < 0.5; number *= 2)
        log -= 0.6931471805599453;
    /* The series of 2 artanh(z), whose terms fall to a ninth each. */
    double z = (number - 1) / (number + 1), power = z, sum = 0;
    for (int odd = 1; odd < 24; odd += 2, power *= z * z)
        sum += power / odd;
    return log + 2 * sum;
}

/* Sets the next arrival: the times between arrivals are exponential (a Poisson process). A rate
 * changes at the start of a step, with the first time drawn there. */
static inline void draw_arrival(struct pace *pace)
{
    struct arrival *next = &pace->next;
    for (; next->step < pace->steps; next->step++) {
        double start = pace->began + (double)next->step * pace->step_s;
        double from = next->at > start ? next->at : start;
        /* Above 0, of which there is no logarithm. */
        double drawn = (double)((random_next(&pace->seed) >> 11) + 1) * 0x1p-53;
        double at = from - natural_log(drawn) / pace->step[next->step].rate;
        if (at < start + pace->step_s) {
            next->at = at;
            return;
        }
        next->at = start + pace->step_s;
    }
}

static inline int has_arrivals(const struct pace *pace)
{
    return pace->next.step < pace->steps;
}

static inline void start_pace(struct pace *pace)
{
    pace->began = now_s();
    pace->ends = pace->began + (double)pace->steps * pace->step_s;
    pace->second_ends = pace->began + 1;
    draw_arrival(pace);
}

static inline void count_answer(struct pace *pace, const struct arrival *arrival, double now)
{
    struct tally *tallies[] = {&pace->step[arrival->step].tally, &pace->second};
    for (size_t i = 0; i < 2; i++) {
        count_latency(tallies[i], now - arrival->at);
        tallies[i]->requests++;
    }
}

/* Counts a request that has no answer at the end: it has taken at least this long. */
static inline void count_unanswered(struct pace *pace, const struct arrival *arrival)
{
    count_answer(pace, arrival, pace->ends);
    pace->step[arrival->step].unanswered++;
}

/* Prints the last second's figures: what a service would report of itself. */
static inline void report_second(struct pace *pace, double now)
{
    if (now < pace->second_ends)
        return;
    printf("{\"phase\": \"second\", \"at\": %.3f, \"requests\": %ld, \"p99_us\": %.2f}\n",
           now - pace->began, pace->second.requests, percentile(&pace->second, 0.99));
    fflush(stdout);
    memset(&pace->second, 0, sizeof pace->second);
    while (pace->second_ends <= now)
        pace->second_ends += 1;
}

/* Waits until an answer arrives, a second ends, or, if another request may be sent, the next one is
 * due. Returns true if there is an answer. */
static inline int wait_for_answer(const struct pace *pace, int descriptor, int may_send)
{
    struct pollfd answer = {.fd = descriptor, .events = POLLIN};
    double until = pace->second_ends;
    if (may_send && has_arrivals(pace) && pace->next.at < until)
        until = pace->next.at;
    double left = until - now_s();
    long ns = left > 0 ? (long)(left * 1e9) : 0;
    struct timespec time = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    int ready = ppoll(&answer, 1, &time, NULL);
    if (ready < 0 && errno != EINTR)
        fail("waiting for the store: %s", strerror(errno));
    return ready > 0;
}

/* Prints a step's figures with its histogram: pairs of a latency's upper end and a count, so that a
 * reader can count the requests above any latency. */
static inline void report_step(const struct pace *pace, size_t number)
{
    const struct tally *tally = &pace->step[number].tally;
    printf("{\"phase\": \"step\", \"step\": %zu, \"rate\": %.0f, \"seconds\": %.6f, "
           "\"requests\": %ld, \"unanswered\": %ld, \"p50_us\": %.2f, \"p99_us\": %.2f, "
           "\"histogram\": [",
           number, pace->step[number].rate, pace->step_s, tally->requests,
           pace->step[number].unanswered, percentile(tally, 0.50), percentile(tally, 0.99));
    const char *comma = "";
    for (size_t i = 0; i < BUCKETS; i++) {
        if (tally->buckets[i] == 0)
            continue;
        printf("%s[%.2f, %lu]", comma, bucket_us(i), tally->buckets[i]);
        comma = ", ";
    }
    printf("]}\n");
    fflush(stdout);
}

#endif
