/* Firings of each neuron with the first and last place in the corpus. Batches
 * come in any order, so places are compared; a batch behind all others, the
 * usual case, needs no look at the places kept. Within a batch rows ascend. */
#include <config.h>

#include <assert.h>

#include "analysis/profile_internal.h"

/* is_later is a constant where this is inlined. Returns 1 on overflow: counts
 * are below 2^63, so the top bit of a sum, or of what is added, shows it. */
static inline int add_firings(const struct tw_profile *p,
                              const struct twp_probe *probe,
                              const struct tw_layer_obs *obs, int def,
                              int is_later)
{
    int64_t width = p->config.width;
    const uint64_t *restrict more = obs->fired + def * width;
    const uint32_t *restrict a = obs->first + def * width;
    const uint32_t *restrict z = obs->last + def * width;
    const struct twp_place *restrict place = p->place;
    int64_t *restrict fired = probe->fired;
    struct twp_place *restrict first = probe->first;
    struct twp_place *restrict last = probe->last;
    uint64_t bits = 0;
    for (int64_t n = 0; n < width; n++) {
        uint64_t sum = (uint64_t)fired[n] + more[n];
        if (more[n] == 0)
            continue;
        assert(a[n] <= z[n] && z[n] < (uint32_t)obs->rows);
        int is_new = fired[n] == 0;
        if (is_new || (!is_later && twp_is_before(place[a[n]], first[n])))
            first[n] = place[a[n]];
        if (is_new || is_later || twp_is_before(last[n], place[z[n]]))
            last[n] = place[z[n]];
        fired[n] = (int64_t)sum;
        bits |= sum | more[n];
    }
    return bits >> 63 != 0;
}

const char *twp_neurons_add(struct tw_profile *p,
                            const struct tw_layer_obs *obs, int layer)
{
    int is_over = 0;
    for (int def = 0; def < p->config.probes; def++) {
        const struct twp_probe *probe = twp_probe(p, def, layer);
        if (p->is_later)
            is_over |= add_firings(p, probe, obs, def, 1);
        else
            is_over |= add_firings(p, probe, obs, def, 0);
    }
    return is_over ? "firings" : NULL;
}
