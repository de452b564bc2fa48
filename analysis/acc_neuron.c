/* Firings of each neuron with the first and last place in the corpus. Batches
 * come in any order, so places are compared, by document, then row; within a
 * batch rows ascend. */
#include <config.h>

#include <assert.h>

#include "analysis/profile_internal.h"

static int is_before(struct twp_place a, struct twp_place b)
{
    return a.document != b.document ? a.document < b.document : a.row < b.row;
}

const char *twp_neurons_add(struct tw_profile *p,
                            const struct tw_layer_obs *obs, int layer)
{
    int64_t width = p->config.width;
    int is_over = 0;
    for (int def = 0; def < p->config.probes; def++) {
        struct twp_neuron *neuron = twp_probe(p, def, layer)->neuron;
        const uint64_t *fired = obs->fired + def * width;
        const uint32_t *first = obs->first + def * width;
        const uint32_t *last = obs->last + def * width;
        for (int64_t n = 0; n < width; n++) {
            if (fired[n] == 0)
                continue;
            assert(first[n] <= last[n] && (int64_t)last[n] < obs->rows);
            struct twp_neuron *to = &neuron[n];
            struct twp_place a = p->place[first[n]], z = p->place[last[n]];
            if (to->fired == 0 || is_before(a, to->first))
                to->first = a;
            if (to->fired == 0 || is_before(to->last, z))
                to->last = z;
            is_over |= twp_add_unsigned(&to->fired, fired[n]);
        }
    }
    return is_over ? "firings" : NULL;
}
