/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * EMT (sections 5.2, 5.3 and 6) reads a counter of each object that grows whenever its reference
 * count changes, keeps the last eight changes, predicts the object's hotness from them, and adds up
 * the hotness of a page's objects. Here a change is a store to the reference count, which is exact
 * and needs no patched interpreter.
 *
 * An object is found by its first two words: a reference count and the address of a type. A type is
 * an object whose own type is `type`, or a class of classes. `type` is its own type and has that
 * name. Immortal objects count none of their references, so they have no hotness.
 */
#include "objects.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "grow.h"
#include "pages.h"
#include "window.h"

/* Objects of CPython's allocators start at multiples of 16 bytes. */
#define GRANULE_SHIFT 4
#define GRANULES (1u << (PAGE_SHIFT - GRANULE_SHIFT))

/* EMT's changes[0..7], of a byte each. */
#define SAMPLES 8
#define MAX_CHANGE 255
/* A reference that is taken and dropped. */
#define SMALL_CHANGE 2

/* Above this a word is an address, or the count of an immortal object (2^32 - 1). */
#define MAX_COUNT (UINT64_C(1) << 31)

/* Offsets in a PyTypeObject of CPython 3.12 and 3.13: ob_type, tp_name. */
#define OB_TYPE 8
#define TP_NAME 24

/* The weights of python/emt/reproduction's model for counters that grow, fitted to samples of a
 * patched interpreter; a test compares them. */
static const double intercept = 1.7466;
static const double of_median = 0.0146, of_deviation = -0.0938, of_nonzero = 1.0701,
                    of_small = -0.513, of_range = 0.027;

/* A page's hotness is sent in this part of one: the paper's histogram has powers of two. */
static const double hotness_unit = 1.0 / 16;

struct object_page {
    uint64_t vpn;
    uint8_t fresh[GRANULES];
    uint8_t changes[GRANULES][SAMPLES];
};

static bool follows;
static struct object_page **object_pages; /* by page; NULL without a store that may be a count's */
static size_t object_pages_capacity;
static unsigned next_sample;

/* Addresses that are types. Others are not kept: a type may be made there later. */
#define TYPES (1u << 14)
static uint64_t types[TYPES];

void objects_follow(void)
{
    follows = true;
}

bool objects_followed(void)
{
    return follows;
}

void objects_store(uint32_t page, uint64_t address, unsigned bytes)
{
    /* A count is a word or its lower half. */
    if (address & ((1u << GRANULE_SHIFT) - 1) || (bytes != 4 && bytes != 8))
        return;
    if (page >= object_pages_capacity) {
        size_t before = object_pages_capacity;
        GROW(object_pages, object_pages_capacity, (size_t)page + 1);
        memset(object_pages + before, 0,
               (object_pages_capacity - before) * sizeof(struct object_page *));
    }
    struct object_page **found = &object_pages[page];
    if (!*found)
        *found = checked_calloc(1, sizeof **found);
    (*found)->vpn = address >> PAGE_SHIFT;
    uint8_t *fresh = &(*found)->fresh[(address >> GRANULE_SHIFT) % GRANULES];
    if (*fresh != MAX_CHANGE)
        ++*fresh;
}

static struct object_page *page_of(uint32_t page)
{
    return page < object_pages_capacity ? object_pages[page] : NULL;
}

void objects_move(uint32_t page, uint64_t vpn)
{
    if (page_of(page))
        object_pages[page]->vpn = vpn;
}

void objects_end(uint32_t page)
{
    if (page_of(page)) {
        free(object_pages[page]);
        object_pages[page] = NULL;
    }
}

/* Reads a word of the guest, which has the host's addresses; 0 where it has no memory. */
static uint64_t word_at(uint64_t address)
{
    if (address & 7 || address < PAGE_BYTES || !pages_exist(address >> PAGE_SHIFT))
        return 0;
    return *(const uint64_t *)(uintptr_t)address;
}

/* Whether an address is that of `type`. */
static bool is_root(uint64_t address)
{
    if (word_at(address + OB_TYPE) != address)
        return false;
    uint64_t name = word_at(address + TP_NAME);
    return pages_exist(name >> PAGE_SHIFT) && pages_exist((name + sizeof "type") >> PAGE_SHIFT) &&
           memcmp((const char *)(uintptr_t)name, "type", sizeof "type") == 0;
}

static bool is_type(uint64_t address)
{
    uint64_t *slot = &types[(address >> 4) % TYPES];
    if (*slot == address)
        return true;
    uint64_t class = word_at(address + OB_TYPE);
    if (class == 0 || !(is_root(class) || is_root(word_at(class + OB_TYPE))))
        return false;
    *slot = address;
    return true;
}

static bool is_object(uint64_t address)
{
    const uint64_t *words = (const uint64_t *)(uintptr_t)address;
    return words[0] != 0 && words[0] < MAX_COUNT && words[1] != 0 && is_type(words[1]);
}

/* EMT's prediction from an object's last changes, at least one of which is not zero. */
static double hotness_of(const uint8_t changes[SAMPLES])
{
    uint8_t sorted[SAMPLES];
    unsigned sum = 0, squares = 0, nonzero = 0, small = 0;
    for (unsigned i = 0; i < SAMPLES; i++) {
        unsigned change = changes[i], at = i;
        for (; at > 0 && sorted[at - 1] > change; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (uint8_t)change;
        sum += change;
        squares += change * change;
        nonzero += change != 0;
        small += change != 0 && change <= SMALL_CHANGE;
    }
    double median = (sorted[SAMPLES / 2 - 1] + sorted[SAMPLES / 2]) / 2.0;
    double mean = (double)sum / SAMPLES, variance = (double)squares / SAMPLES - mean * mean;
    double hotness = intercept + of_median * median + of_deviation * sqrt(fmax(variance, 0)) +
                     of_nonzero * nonzero + of_small * small +
                     of_range * (sorted[SAMPLES - 1] - sorted[0]);
    return fmax(hotness, 0);
}

/* Takes the sample of a page. Returns its hotness. */
static double sample(struct object_page *page, uint32_t *live)
{
    double hotness = 0;
    for (unsigned i = 0; i < GRANULES; i++) {
        uint8_t *changes = page->changes[i];
        if (!is_object(page->vpn << PAGE_SHIFT | i << GRANULE_SHIFT)) {
            memset(changes, 0, SAMPLES);
            continue;
        }
        ++*live;
        changes[next_sample] = page->fresh[i];
        uint64_t any;
        memcpy(&any, changes, sizeof any);
        if (any != 0)
            hotness += hotness_of(changes);
    }
    memset(page->fresh, 0, sizeof page->fresh);
    return hotness;
}

uint32_t objects_take(struct wire_buffer *buffer, uint32_t *live)
{
    uint32_t hot = 0;
    *live = 0;
    for (size_t page = 0; page < object_pages_capacity; page++) {
        if (!object_pages[page])
            continue;
        double hotness = sample(object_pages[page], live);
        struct wire_heat heat = {.page = (uint32_t)page,
                                 .hotness = (uint32_t)(hotness / hotness_unit + 0.5)};
        if (heat.hotness != 0) {
            wire_append(buffer, &heat, sizeof heat);
            hot++;
        }
    }
    next_sample = (next_sample + 1) % SAMPLES;
    return hot;
}
