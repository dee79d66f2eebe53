#include "wanted.h"

#include "hooking.h"
#include "recording.h"
#include "sites.h"

/* The tier that this thread's block asked for. The model costs one load relative to a register;
 * it fits in the room that the C library leaves for libraries loaded later. */
static _Thread_local uint8_t wanted __attribute__((tls_model("initial-exec")));
unsigned asking;
static bool by_site;

PyThreadState *main_state(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyThreadState *state = PyThreadState_GetUnchecked();
#else
    PyThreadState *state = _PyThreadState_UncheckedGet();
#endif
    return state != NULL && state->interp == PyInterpreterState_Main() ? state : NULL;
}

struct bins *bins_now(void)
{
    PyThreadState *state = main_state();
    if (state == NULL) {
        return NULL;
    }
    if (recording) {
        return recording_bins(site_now(state));
    }
    unsigned tier = wanted != DEFAULT ? wanted : by_site ? site_now(state) : DEFAULT;
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
    asking += (unsigned)(wanted != DEFAULT) - (unsigned)(before != DEFAULT);
    return before;
}
