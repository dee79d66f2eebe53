#include "wanted.h"

#include "hooking.h"
#include "recording.h"
#include "sites.h"

/* The tier that this thread's block asked for. */
static _Thread_local uint8_t wanted __attribute__((tls_model("initial-exec")));
_Thread_local struct bins *wanted_bins __attribute__((tls_model("initial-exec")));
unsigned asking;
static bool by_site;

struct bins *bins_of_site(PyThreadState *state)
{
    if (!by_site) {
        return NULL;
    }
    unsigned tier = site_now(state);
    if (__builtin_expect(recording, 0)) {
        recorded_blocks++;
        return recording_bins(tier);
    }
    return tier == DEFAULT ? NULL : &heaps.bins[tier - COLD];
}

struct bins *bins_of(struct region *region, const void *block)
{
    return recording ? recording_bins(region_owner(region, block))
                     : &heaps.bins[region - heaps.regions];
}

void sites_ask(void)
{
    by_site = true;
    asking++;
}

uint8_t heaps_switch(uint8_t tier)
{
    uint8_t before = wanted;
    if (tier != DEFAULT && asking == 0 && heaps.bytes > 0) {
        hooks_needed();
    }
    wanted = heaps.bytes > 0 ? tier : DEFAULT;
    /* A recording has each site's own, whatever block is open. */
    wanted_bins = wanted == DEFAULT || recording ? NULL : &heaps.bins[wanted - COLD];
    asking += (unsigned)(wanted != DEFAULT) - (unsigned)(before != DEFAULT);
    return before;
}
