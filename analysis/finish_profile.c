/* The end of a run: what can be said only when every row has been seen. */
#include <config.h>

#include <math.h>

#include "analysis/profile_internal.h"
#include "analysis/statistics.h"
#include "analysis/store_profile.h"
#include "base/memory.h"

static const int permille[4] = {500, 900, 990, 999};

/* How many of a layer's neurons never fired, fired once, fired always. */
static void count_neurons(const struct tw_profile *p, int def, int layer,
                          int64_t *dead, int64_t *once, int64_t *always)
{
    const int64_t *fired = twp_probe(p, def, layer)->fired;
    int64_t per_expert = p->config.width / p->config.experts;
    *dead = *once = *always = 0;
    for (int64_t n = 0; n < p->config.width; n++) {
        int64_t tokens = p->layer[layer].seen[n / per_expert];
        *dead += fired[n] == 0;
        *once += fired[n] == 1;
        *always += tokens > 0 && fired[n] == tokens;
    }
}

static enum tw_status put_derived(const struct twp_save *save, int def,
                                  int layer)
{
    const struct tw_profile *p = save->p;
    const struct twp_probe *probe = twp_probe(p, def, layer);
    struct tw_profile_layer s;
    tw_profile_layer(p, def, layer, &s);
    int64_t bins = p->config.width + 1, dead, once, always;
    double quantile[4];
    for (int i = 0; i < 4; i++)
        quantile[i] = tw_histogram_quantile(probe->hist, bins, permille[i]);
    count_neurons(p, def, layer, &dead, &once, &always);
    if (s.tokens == 0)
        dead = once = always = TW_NULL;
    return tw_store_put_derived(
        save->store, save->run, def, layer, s.mean_nnz,
        tw_jackknife_ratio_se(probe->block_sum, p->block_count, TWP_BLOCKS),
        tw_histogram_std(probe->hist, bins), quantile, dead, once, always,
        save->err);
}

/* first: [width], scratch. */
static enum tw_status put_dead_curve(const struct twp_save *save, int def,
                                     int layer, int64_t total, int64_t *first)
{
    const struct twp_probe *probe = twp_probe(save->p, def, layer);
    int64_t width = save->p->config.width;
    struct tw_profile_totals totals;
    tw_profile_totals(save->p, &totals);
    if (totals.tokens == 0) /* every row skipped: nothing was measured */
        return TW_OK;
    int64_t seen[TW_DEAD_POINTS], dead[TW_DEAD_POINTS];
    for (int64_t n = 0; n < width; n++)
        first[n] = probe->fired[n] ? twp_clock_at(save->p, save->clock,
                                                  probe->first[n])
                                   : -1;
    int points = tw_dead_curve(first, width, total, seen, dead);
    enum tw_status status = TW_OK;
    for (int i = 0; i < points && !status; i++)
        status = tw_store_put(save->store, TW_TABLE_DEAD_CURVE,
                              (int64_t[]){save->run, def, layer, seen[i],
                                          dead[i]},
                              save->err);
    return status;
}

/* How often a rate of fired in tokens can be doubled and not pass 1. */
static int halvings_of(int64_t fired, int64_t tokens)
{
    int halvings = 0;
    while (halvings < 62 && fired <= tokens >> (halvings + 1))
        halvings++;
    return halvings;
}

static enum tw_status put_rates(const struct twp_save *save, int def, int layer)
{
    const struct tw_profile *p = save->p;
    const int64_t *fired = twp_probe(p, def, layer)->fired;
    int64_t per_expert = p->config.width / p->config.experts;
    int64_t neurons[64] = {0}; /* [0]: never; else by halvings + 1 */
    struct tw_profile_totals totals;
    tw_profile_totals(p, &totals);
    if (totals.tokens == 0)
        return TW_OK;
    for (int64_t n = 0; n < p->config.width; n++) {
        int64_t tokens = p->layer[layer].seen[n / per_expert];
        neurons[fired[n] ? halvings_of(fired[n], tokens) + 1 : 0]++;
    }
    enum tw_status status = TW_OK;
    for (int i = 0; i < 64 && !status; i++)
        if (neurons[i])
            status = tw_store_put(
                save->store, TW_TABLE_RATE,
                (int64_t[]){save->run, def, layer, i - 1, neurons[i]},
                save->err);
    return status;
}

static enum tw_status put_loss(const struct twp_save *save)
{
    const struct tw_profile *p = save->p;
    struct tw_profile_totals t;
    tw_profile_totals(p, &t);
    double se = tw_jackknife_ratio_se(p->block_nll, p->block_predicted,
                                      TWP_BLOCKS) / TW_NLL_SCALE;
    enum tw_status status = tw_store_set_real(save->store, save->run,
                                              "mean_nll", t.mean_nll,
                                              save->err);
    if (!status)
        status = tw_store_set_real(save->store, save->run, "se_nll", se,
                                   save->err);
    if (!status)
        status = tw_store_set_real(save->store, save->run, "perplexity",
                                   exp(t.mean_nll), save->err);
    return status;
}

static enum tw_status put_all(const struct twp_save *save, int64_t total,
                              int64_t *first)
{
    enum tw_status status = twp_save_all(save);
    for (int def = 0; def < save->p->config.probes; def++)
        for (int l = 0; l < save->p->config.layers && !status; l++) {
            status = put_derived(save, def, l);
            if (!status)
                status = put_dead_curve(save, def, l, total, first);
            if (!status)
                status = put_rates(save, def, l);
        }
    return status ? status : put_loss(save);
}

enum tw_status tw_profile_finish(const struct tw_profile *p,
                                 struct tw_store *store, int64_t run,
                                 struct tw_error *err)
{
    int64_t *clock = tw_alloc(p->documents, sizeof *clock);
    int64_t *first = tw_alloc((size_t)p->config.width, sizeof *first);
    enum tw_status status;
    if (clock && first) {
        struct twp_save save = {p, store, run, clock, err};
        int64_t total = twp_clock_make(p, clock);
        status = put_all(&save, total, first);
    } else {
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory for %zu "
                              "documents", p->documents);
    }
    tw_free(clock);
    tw_free(first);
    return status;
}
