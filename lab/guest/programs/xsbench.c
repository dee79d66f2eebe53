/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * xsbench GRIDPOINTS LOOKUPS: look-ups of macroscopic cross sections, after the description of
 * XSBench (Tramm et al., PHYSOR 2014). Each of 68 nuclides has a grid of GRIDPOINTS energies with
 * five cross sections each; a unionised grid of all energies has, for each energy, its place in
 * every nuclide's grid. A look-up draws an energy and a material, finds the energy by binary search
 * and adds up the cross sections of the material's nuclides. The index takes most of the memory and
 * is read by rows. The grids take a seventh of the memory and have most accesses.
 *
 * It prints a JSON line when its memory is filled, and one at the end with its seconds and a
 * checksum, which depends only on the arguments.
 */
#include "common.h"
#include "progress.h"

/* The small Hoogenboom-Martin reactor: its nuclides and materials, the nuclides of each material,
 * and the share of neutrons in it, in thousandths. The fuel is the first. */
enum { NUCLIDES = 68, MATERIALS = 12, SECTIONS = 5 };
static const uint32_t nuclides_of[MATERIALS] = {34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};
static const uint32_t thousandths_of[MATERIALS] = {140, 52, 275, 134, 154, 64,
                                                   66,  55, 8,   15,  25,  12};

struct point {
    double energy, section[SECTIONS];
};

struct reactor {
    size_t points;      /* of a nuclide */
    size_t energies;    /* of all nuclides */
    struct point *grid; /* nuclide by nuclide, ascending */
    double *energy;     /* the unionised grid, ascending */
    uint32_t *place;    /* of each of its energies, a place in each nuclide's grid */
};

static double fraction(uint64_t *seed)
{
    return (double)(random_next(seed) >> 11) * 0x1p-53;
}

/* Makes the grids. Energies that rise by random steps need no sorting. */
static void make_grids(struct reactor *reactor, uint64_t *seed)
{
    for (size_t nuclide = 0; nuclide < NUCLIDES; nuclide++) {
        double energy = 0;
        for (size_t i = 0; i < reactor->points; i++) {
            struct point *point = &reactor->grid[nuclide * reactor->points + i];
            /* The step is above zero, because an interpolation divides by it. */
            point->energy = energy += fraction(seed) + 0x1p-20;
            for (int section = 0; section < SECTIONS; section++)
                point->section[section] = fraction(seed);
        }
    }
}

/* Merges the grids: the nuclide with the lowest next energy comes next. */
static void unionise(struct reactor *reactor)
{
    uint32_t taken[NUCLIDES] = {0}, last = (uint32_t)reactor->points - 2;
    for (size_t row = 0; row < reactor->energies; row++) {
        const struct point *lowest = NULL;
        size_t owner = 0;
        for (size_t nuclide = 0; nuclide < NUCLIDES; nuclide++) {
            const struct point *point = &reactor->grid[nuclide * reactor->points + taken[nuclide]];
            if (taken[nuclide] < reactor->points && (!lowest || point->energy < lowest->energy)) {
                lowest = point;
                owner = nuclide;
            }
        }
        reactor->energy[row] = lowest->energy;
        taken[owner]++;
        for (size_t nuclide = 0; nuclide < NUCLIDES; nuclide++) {
            uint32_t below = taken[nuclide] ? taken[nuclide] - 1 : 0;
            reactor->place[row * NUCLIDES + nuclide] = below < last ? below : last;
        }
    }
}

/* Returns the row of the greatest energy that is not above this one; the first row if there is
 * none. */
static size_t row_of(const struct reactor *reactor, double energy)
{
    size_t low = 0, rows = reactor->energies;
    while (rows > 1) {
        size_t half = rows / 2;
        low += reactor->energy[low + half] <= energy ? half : 0;
        rows -= half;
    }
    return low;
}

static uint32_t random_material(uint64_t *seed)
{
    uint32_t drawn = (uint32_t)((random_next(seed) >> 11) % 1000), material = 0;
    while (material < MATERIALS - 1 && drawn >= thousandths_of[material])
        drawn -= thousandths_of[material++];
    return material;
}

/* Returns the sum of all five sections, for the checksum. */
static double look_up(const struct reactor *reactor, double energy, uint32_t material)
{
    const uint32_t *place = &reactor->place[row_of(reactor, energy) * NUCLIDES];
    /* Every material but the fuel starts at another nuclide. */
    uint32_t nuclide = material * 5 % NUCLIDES;
    double sum = 0;
    for (uint32_t i = 0; i < nuclides_of[material]; i++, nuclide = (nuclide + 1) % NUCLIDES) {
        const struct point *low = &reactor->grid[nuclide * reactor->points + place[nuclide]];
        double part = (energy - low[0].energy) / (low[1].energy - low[0].energy);
        for (int section = 0; section < SECTIONS; section++)
            sum += low[0].section[section] +
                   part * (low[1].section[section] - low[0].section[section]);
    }
    return sum;
}

int main(int count, char **words)
{
    if (count != 3)
        fail("usage: xsbench GRIDPOINTS LOOKUPS, for example: xsbench 4000 1000000");
    long points = number_of("GRIDPOINTS", words[1], 2), lookups = number_of("LOOKUPS", words[2], 1);
    double began = now_s(), sum = 0;
    struct reactor reactor = {.points = (size_t)points, .energies = NUCLIDES * (size_t)points};
    size_t rows = reactor.energies;
    reactor.grid = (struct point *)allocate(rows * sizeof *reactor.grid, -1, 0);
    reactor.energy = (double *)allocate(rows * sizeof *reactor.energy, -1, 0);
    reactor.place = (uint32_t *)allocate(rows * NUCLIDES * sizeof *reactor.place, -1, 0);
    uint64_t seed = RANDOM_SEED;
    make_grids(&reactor, &seed);
    unionise(&reactor);
    printf("{\"energies\": %zu, \"build_seconds\": %.6f}\n", rows, now_s() - began);
    fflush(stdout);
    double start = now_s(), highest = reactor.energy[rows - 1];
    volatile uint64_t *done = progress();
    for (long i = 0; i < lookups; i++) {
        *done = (uint64_t)i;
        double energy = fraction(&seed) * highest;
        sum += look_up(&reactor, energy, random_material(&seed));
    }
    printf("{\"lookups\": %ld, \"seconds\": %.6f, \"checksum\": %.12g}\n", lookups, now_s() - start,
           sum);
    return 0;
}
