/* What a second pass has to do, and the block of its results. */
#include <config.h>

#include "kernels/cuda/second.h"

struct twp_second_def twp_second_def_of(const struct tw_active *active)
{
    struct twp_second_def def = {.def = twp_def_of(active)};
    if (active->kind == TW_ACTIVE_TOPP)
        def.share = active->arg;
    if (active->kind == TW_ACTIVE_TOPK) { /* taken while i < arg */
        bool is_all = active->arg >= (double)TWP_SECOND_COLS;
        def.most = is_all ? TWP_SECOND_COLS : (uint32_t)active->arg;
        def.most += !is_all && (double)def.most < active->arg;
    }
    return def;
}

int64_t twp_second_room(int32_t cols)
{
    int64_t room = 1;
    while (room < cols)
        room *= 2;
    return room;
}

int32_t twp_second_find(const struct twp_second_wish *wish,
                        const struct tw_active *active)
{
    struct twp_second_def def = twp_second_def_of(active);
    int32_t d = 0;
    while (d < wish->defs &&
           (wish->def[d].def.kind != def.def.kind ||
            wish->def[d].def.threshold != def.def.threshold ||
            wish->def[d].share != def.share || wish->def[d].most != def.most))
        d++;
    return d;
}

static enum tw_status add_def(struct twp_second_wish *wish,
                              const struct tw_active *active,
                              struct tw_error *err)
{
    if (twp_second_find(wish, active) < wish->defs)
        return TW_OK;
    if (wish->defs == TWP_SECOND_DEFS)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda' counts up to %d definitions at "
                            "once: '%s' is one more",
                            TWP_SECOND_DEFS, active->name);
    wish->def[wish->defs++] = twp_second_def_of(active);
    return TW_OK;
}

enum tw_status twp_second_defs(const struct tw_probes *probes,
                               const struct tw_layer_obs *obs,
                               const struct twp_counts *counts,
                               struct twp_second_wish *wish,
                               struct tw_error *err)
{
    *wish = (struct twp_second_wish){.has_magnitudes = obs->magnitude != NULL,
                                     .has_sets = obs->set_start != NULL};
    enum tw_status status = TW_OK;
    if (wish->has_magnitudes || wish->has_sets)
        status = add_def(wish, &probes->active[0], err);
    for (int p = 0; status == TW_OK && p < probes->count; p++) {
        struct twp_def def = twp_def_of(&probes->active[p]);
        if (twp_counts_find(counts, def) == counts->defs)
            status = add_def(wish, &probes->active[p], err);
    }
    return status;
}

/* h is 0 outside an applied definition. Plain: act(up) is h where nothing is
 * applied. Lists hold what is in the pattern, also if its packed value isn't
 * beyond the threshold that it was packed by. */
struct twp_def twp_second_rule(const struct tw_ffn *ffn, struct twp_def def,
                               bool is_listed)
{
    const struct twp_def *apply = ffn->is_applied ? &ffn->apply : NULL;
    bool is_h = !ffn->is_gated && !apply;
    if (def.kind == TW_ACTIVE_GATE && is_listed)
        return def;
    if (def.kind == TW_ACTIVE_GATE && apply &&
        apply->kind == TW_ACTIVE_GATE_ABS)
        return *apply;
    if (def.kind == TW_ACTIVE_GATE && (is_h || apply))
        def.kind = TW_ACTIVE_HIDDEN;
    if (def.kind == TW_ACTIVE_GATE_ABS && is_h)
        def.kind = TW_ACTIVE_ABS;
    if (def.kind == TW_ACTIVE_GATE_ABS && is_listed && apply &&
        def.threshold == apply->threshold)
        def.kind = TW_ACTIVE_GATE;
    return def;
}

bool twp_second_needs_gate(const struct tw_ffn *ffn,
                           const struct twp_second_wish *wish, bool is_listed)
{
    bool needs = false;
    for (int32_t d = 0; d < wish->defs; d++) {
        struct twp_def rule = twp_second_rule(ffn, wish->def[d].def, is_listed);
        needs |= rule.kind == TW_ACTIVE_GATE_ABS ||
                 (rule.kind == TW_ACTIVE_GATE && !is_listed);
    }
    return needs;
}

size_t twp_second_carve(int32_t rows, int32_t cols,
                        const struct twp_second_wish *wish, char *memory,
                        struct twp_second_call *call, size_t *ones)
{
    size_t at = 0, r = (size_t)rows, n = (size_t)cols;
    struct twp_second *to = &call->to;
    for (int32_t d = 0; d < wish->defs; d++)
        to->first[d] = twp_place(memory, &at, n * sizeof *to->first[d]);
    *ones = at;
    for (int32_t d = 0; d < wish->defs; d++) {
        to->nnz[d] = twp_place(memory, &at, r * sizeof *to->nnz[d]);
        to->fired[d] = twp_place(memory, &at, n * sizeof *to->fired[d]);
        to->last[d] = twp_place(memory, &at, n * sizeof *to->last[d]);
    }
    if (wish->has_magnitudes) {
        struct twp_magnitudes *m = &call->magnitudes;
        m->abs_sum = twp_place(memory, &at, n * sizeof *m->abs_sum);
        m->abs_max = twp_place(memory, &at, n * sizeof *m->abs_max);
        m->magnitude =
            twp_place(memory, &at, TW_MAGNITUDE_BINS * sizeof *m->magnitude);
        m->is_overflown = twp_place(memory, &at, sizeof *m->is_overflown);
    }
    if (wish->has_sets)
        call->start = twp_place(memory, &at, (r + 1) * sizeof *call->start);
    return at;
}
