/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "threads.h"

#include <stddef.h>

#include "grow.h"
#include "window.h"

/* QEMU numbers concurrent threads densely, and Linux allows no more of them by default. */
#define MAX_VCPUS 32768

static struct thread *threads[MAX_VCPUS];
static unsigned n_threads;
static uint32_t next_number;

/* Threads that ended within this window and whose places other threads took. */
struct ended {
    uint32_t number;
    uint64_t instructions;
};
static struct ended *ended;
static size_t n_ended, ended_capacity;

struct thread *thread_of(unsigned vcpu)
{
    return threads[vcpu];
}

static uint64_t executed(const struct thread *thread)
{
    return atomic_load_explicit(&thread->instructions, memory_order_relaxed) - thread->window_start;
}

void thread_begin(unsigned vcpu)
{
    if (vcpu >= MAX_VCPUS)
        fatal("more than %d guest threads at one time", MAX_VCPUS);
    struct thread *thread = threads[vcpu];
    if (!thread) {
        thread = threads[vcpu] = checked_calloc(1, sizeof *thread);
        if (vcpu >= n_threads)
            n_threads = vcpu + 1;
    } else if (thread->number != UNNUMBERED) {
        thread_drain(thread);
        GROW(ended, ended_capacity, n_ended + 1);
        ended[n_ended++] = (struct ended){thread->number, executed(thread)};
    }
    thread->window_start = atomic_load_explicit(&thread->instructions, memory_order_relaxed);
    thread->check_at = 0; /* its first block takes the slow path and gives it its number */
    thread->number = UNNUMBERED;
}

uint16_t thread_number(struct thread *thread)
{
    if (thread->number == UNNUMBERED) {
        /* A trace numbers threads with 16 bits; the few programs that start more share the last. */
        thread->number = next_number < UINT16_MAX ? next_number++ : UINT16_MAX;
    }
    return (uint16_t)thread->number;
}

void thread_drain(struct thread *thread)
{
    uint16_t number = thread_number(thread);
    uint64_t head = atomic_load_explicit(&thread->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&thread->tail, memory_order_relaxed);
    for (; tail != head; tail++) {
        uint64_t noted = thread->ring[tail % RING];
        window_access(noted >> 8, 1U << (noted >> 1 & 0x7f), noted & 1, number);
    }
    atomic_store_explicit(&thread->tail, tail, memory_order_release);
}

void threads_drain(void)
{
    for (unsigned i = 0; i < n_threads; i++) {
        if (threads[i] && threads[i]->number != UNNUMBERED)
            thread_drain(threads[i]);
    }
}

uint64_t threads_instructions(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n_threads; i++) {
        if (threads[i])
            sum += executed(threads[i]);
    }
    for (size_t i = 0; i < n_ended; i++)
        sum += ended[i].instructions;
    return sum;
}

void threads_take(void (*visit)(uint32_t thread, uint64_t instructions, void *data), void *data)
{
    for (size_t i = 0; i < n_ended; i++)
        visit(ended[i].number, ended[i].instructions, data);
    n_ended = 0;
    for (unsigned i = 0; i < n_threads; i++) {
        if (!threads[i])
            continue;
        uint64_t instructions = executed(threads[i]);
        if (instructions == 0)
            continue;
        visit(thread_number(threads[i]), instructions, data);
        threads[i]->window_start += instructions;
    }
}

unsigned threads_seen(void)
{
    return n_threads ? n_threads : 1;
}
