/* The look-up of macroscopic cross sections, which takes most of the time of Monte Carlo neutron
 * transport:
 *
 *     xsbench GRIDPOINTS LOOKUPS
 *
 * Written after the description of XSBench (Tramm et al., PHYSOR 2014, sections 2 and 3), not after
 * its code. A reactor's fuel and structure are materials; a material is a list of nuclides with
 * concentrations; a nuclide has five cross sections at each of GRIDPOINTS energies. A look-up for a
 * neutron's energy and material computes the sum, over the material's nuclides, of concentration
 * times interpolated cross section. The unionized energy grid reduces this to one binary search
 * instead of one per nuclide: it has all nuclides' energies in order, and for each of them the
 * place in every nuclide's own grid.
 *
 * Memory: with n nuclides and g gridpoints the index takes 4 n^2 g bytes, the nuclides' grids 48 n
 * g, the unionized energies 8 n g. Energies and materials of the look-ups are random, so accesses
 * reach single rows all over the index, and single points of the grids.
 *
 * The grids are built before the mark "run"; an operation is a look-up.
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The small Hoogenboom-Martin reactor: nuclides, and how many of them are in each material (fuel,
 * cladding, cold and hot borated water, pressure vessel, reflectors, plates and nozzles, assembly
 * ends). */
enum { NUCLIDES = 68, MATERIALS = 12, CROSS_SECTIONS = 5, MAX_NUCLIDES = 34 };
static const int NUCLIDES_IN[MATERIALS] = {34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};

/* Thousandths of the neutrons that are in each material (same reactor). */
static const int THOUSANDTHS_IN[MATERIALS] = {140, 52, 275, 134, 154, 64, 66, 55, 8, 15, 25, 12};

/* Look-ups per report to the recorder: so few that every window has a report. */
enum { REPORT_EVERY = 1000 };

struct point {
    double energy;
    double cross_section[CROSS_SECTIONS];
};

struct material {
    int nuclides;
    int nuclide[MAX_NUCLIDES];
    double concentration[MAX_NUCLIDES];
};

struct reactor {
    size_t gridpoints;  /* of each nuclide */
    size_t energies;    /* of all together */
    struct point *grid; /* NUCLIDES times gridpoints, ascending in each */
    double *energy;     /* all, ascending */
    uint32_t (
        *index)[NUCLIDES]; /* for each of them, the point at or below it in every nuclide's grid */
    struct material material[MATERIALS];
};

static uint64_t state = 1;

/* Draws a number from 0 to 1 by splitmix64. */
static double draw(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) / (double)(1ull << 53);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = malloc(count * size);

    if (memory == NULL) {
        fprintf(stderr, "xsbench: no memory for %zu times %zu bytes\n", count, size);
        exit(1);
    }
    return memory;
}

static int by_energy(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static void make_grids(struct reactor *reactor)
{
    size_t points = NUCLIDES * reactor->gridpoints;

    reactor->grid = allocate(points, sizeof *reactor->grid);
    for (size_t i = 0; i < points; i++) {
        reactor->grid[i].energy = draw();
        for (int k = 0; k < CROSS_SECTIONS; k++)
            reactor->grid[i].cross_section[k] = draw();
    }
    /* The energy is a point's first member. */
    for (int n = 0; n < NUCLIDES; n++)
        qsort(reactor->grid + (size_t)n * reactor->gridpoints, reactor->gridpoints,
              sizeof *reactor->grid, by_energy);
}

static void unionize(struct reactor *reactor)
{
    uint32_t at[NUCLIDES] = {0};
    uint32_t last = (uint32_t)reactor->gridpoints - 2;

    reactor->energies = NUCLIDES * reactor->gridpoints;
    reactor->energy = allocate(reactor->energies, sizeof *reactor->energy);
    reactor->index = allocate(reactor->energies, sizeof *reactor->index);
    for (size_t i = 0; i < reactor->energies; i++)
        reactor->energy[i] = reactor->grid[i].energy;
    qsort(reactor->energy, reactor->energies, sizeof *reactor->energy, by_energy);
    for (size_t i = 0; i < reactor->energies; i++) {
        for (int n = 0; n < NUCLIDES; n++) {
            const struct point *grid = reactor->grid + (size_t)n * reactor->gridpoints;

            while (at[n] < last && grid[at[n] + 1].energy <= reactor->energy[i])
                at[n]++;
            reactor->index[i][n] = at[n];
        }
    }
}

/* The fuel has the first nuclides; every other material starts with a nuclide that the seed
 * chooses. */
static void make_materials(struct reactor *reactor)
{
    for (int m = 0; m < MATERIALS; m++) {
        struct material *material = &reactor->material[m];
        int first = m == 0 ? 0 : (int)(draw() * NUCLIDES);

        material->nuclides = NUCLIDES_IN[m];
        for (int i = 0; i < material->nuclides; i++) {
            material->nuclide[i] = (first + i) % NUCLIDES;
            material->concentration[i] = draw();
        }
    }
}

/* Returns the index of the greatest energy that is not above this one, or of the first. */
static size_t search(const struct reactor *reactor, double energy)
{
    size_t low = 0, high = reactor->energies;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (reactor->energy[middle] <= energy)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void look_up(const struct reactor *reactor, double energy, int m, double sum[CROSS_SECTIONS])
{
    const struct material *material = &reactor->material[m];
    const uint32_t *index = reactor->index[search(reactor, energy)];

    for (int k = 0; k < CROSS_SECTIONS; k++)
        sum[k] = 0;
    for (int i = 0; i < material->nuclides; i++) {
        int n = material->nuclide[i];
        const struct point *low = reactor->grid + (size_t)n * reactor->gridpoints + index[n];
        double share = (energy - low[0].energy) / (low[1].energy - low[0].energy);

        for (int k = 0; k < CROSS_SECTIONS; k++)
            sum[k] += material->concentration[i] *
                      (low[0].cross_section[k] * (1 - share) + low[1].cross_section[k] * share);
    }
}

static int draw_material(void)
{
    int rest = (int)(draw() * 1000), m = 0;

    while (m < MATERIALS - 1 && rest >= THOUSANDTHS_IN[m])
        rest -= THOUSANDTHS_IN[m++];
    return m;
}

static void mark(FILE *marks, const char *line)
{
    if (marks != NULL) {
        fprintf(marks, "%s\n", line);
        fflush(marks);
    }
}

int main(int argc, char **argv)
{
    struct reactor reactor = {0};
    const char *path = getenv("TIERWISE_MARKS");
    FILE *marks = path != NULL ? fopen(path, "w") : NULL;
    long gridpoints = argc == 3 ? atol(argv[1]) : 0;
    long lookups = argc == 3 ? atol(argv[2]) : 0;
    double checksum = 0, sum[CROSS_SECTIONS];
    char operations[32];

    if (gridpoints < 2 || lookups < 1) {
        fprintf(stderr, "usage: xsbench GRIDPOINTS LOOKUPS (at least 2 and 1)\n");
        return 2;
    }
    snprintf(operations, sizeof operations, "ops %d", REPORT_EVERY);
    reactor.gridpoints = (size_t)gridpoints;
    mark(marks, "load");
    make_grids(&reactor);
    unionize(&reactor);
    make_materials(&reactor);
    mark(marks, "run");
    for (long i = 1; i <= lookups; i++) {
        double energy = draw();

        look_up(&reactor, energy, draw_material(), sum);
        checksum += sum[i % CROSS_SECTIONS];
        if (i % REPORT_EVERY == 0)
            mark(marks, operations);
    }
    printf("%ld look-ups, checksum %.6f\n", lookups, checksum);
    return 0;
}
