/* Firings of each neuron with the first and last place in the corpus. Batches
 * come in any order, so places are compared; a batch behind all others, the
 * usual case, needs no look at the places kept. Within a batch rows ascend. */
#include <config.h>

#include <assert.h>

#include "analysis/profile_internal.h"

/* One neuron that fired in the batch, between the places a and z. */
static inline void note_places(struct twp_probe *probe, int64_t n,
                               struct twp_place a, struct twp_place z,
                               int is_later)
{
    int is_new = probe->fired[n] == 0;
    if (is_new || (!is_later && twp_is_before(a, probe->first[n])))
        probe->first[n] = a;
    if (is_new || is_later || twp_is_before(probe->last[n], z))
        probe->last[n] = z;
}

/* is_later is a constant where this is inlined. Returns 1 on overflow. */
static inline int add_firings(const struct tw_profile *p,
                              struct twp_probe *probe,
                              const struct tw_layer_obs *obs, int def,
                              int is_later)
{
    int64_t width = p->config.width;
    const uint64_t *fired = obs->fired + def * width;
    const uint32_t *first = obs->first + def * width;
    const uint32_t *last = obs->last + def * width;
    const struct twp_place *place = p->place;
    int is_over = 0;
    for (int64_t n = 0; n < width; n++) {
        if (fired[n] == 0)
            continue;
        assert(first[n] <= last[n] && last[n] < (uint32_t)obs->rows);
        note_places(probe, n, place[first[n]], place[last[n]], is_later);
        is_over |= twp_add_unsigned(&probe->fired[n], fired[n]);
    }
    return is_over;
}

const char *twp_neurons_add(struct tw_profile *p,
                            const struct tw_layer_obs *obs, int layer)
{
    int is_over = 0;
    for (int def = 0; def < p->config.probes; def++) {
        struct twp_probe *probe = twp_probe(p, def, layer);
        if (p->is_later)
            is_over |= add_firings(p, probe, obs, def, 1);
        else
            is_over |= add_firings(p, probe, obs, def, 0);
    }
    return is_over ? "firings" : NULL;
}
