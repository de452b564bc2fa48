/* Life of a profile and the way of a batch through its accumulators. */
#include <config.h>

#include "analysis/profile.h"

#include <assert.h>

#include "analysis/profile_internal.h"
#include "analysis/statistics.h"
#include "base/memory.h"
#include "base/threads.h"

static int create_layer(struct twp_layer *layer,
                        const struct tw_profile_config *c)
{
    size_t width = (size_t)c->width;
    int is_short = 0;
    layer->seen = tw_calloc((size_t)c->experts, sizeof *layer->seen);
    for (int t = 0; t < TW_TILE_WIDTHS; t++) {
        layer->tile[t] = tw_calloc((size_t)twp_tile_width[t] + 1,
                                   sizeof *layer->tile[t]);
        is_short |= !layer->tile[t];
    }
    if (c->with_magnitudes) {
        layer->abs_sum = tw_calloc(width, sizeof *layer->abs_sum);
        layer->abs_max = tw_calloc(width, sizeof *layer->abs_max);
        is_short |= !layer->abs_sum || !layer->abs_max;
    }
    return is_short || !layer->seen;
}

static int create_probe(struct twp_probe *probe,
                        const struct tw_profile_config *c)
{
    size_t width = (size_t)c->width;
    probe->hist = tw_calloc(width + 1, sizeof *probe->hist);
    probe->token = tw_calloc((size_t)c->vocab, sizeof *probe->token);
    probe->fired = tw_calloc(width, sizeof *probe->fired);
    probe->first = tw_calloc(width, sizeof *probe->first);
    probe->last = tw_calloc(width, sizeof *probe->last);
    return !probe->hist || !probe->token || !probe->fired || !probe->first ||
           !probe->last;
}

/* All but the position tables, which the first batch makes. */
static int create_tables(struct tw_profile *p)
{
    const struct tw_profile_config *c = &p->config;
    size_t layers = (size_t)c->layers, probes = (size_t)c->probes;
    size_t vocab = (size_t)c->vocab;
    p->layer = tw_calloc(layers, sizeof *p->layer);
    p->probe = tw_calloc(probes * layers, sizeof *p->probe);
    p->token = tw_calloc(vocab, sizeof *p->token);
    p->sum_even = tw_calloc(probes * vocab, sizeof *p->sum_even);
    p->nnz_total = tw_calloc(probes, sizeof *p->nnz_total);
    if (!p->layer || !p->probe || !p->token || !p->sum_even || !p->nnz_total)
        return 1;
    for (size_t l = 0; l < layers; l++)
        if (create_layer(&p->layer[l], c))
            return 1;
    for (size_t i = 0; i < probes * layers; i++)
        if (create_probe(&p->probe[i], c))
            return 1;
    return 0;
}

enum tw_status tw_profile_create(const struct tw_profile_config *config,
                                 struct tw_profile **profile,
                                 struct tw_error *err)
{
    assert(config->layers > 0 && config->probes > 0 && config->width > 0);
    assert(config->width < INT32_MAX && config->vocab > 0 && config->ctx > 0);
    assert(config->experts > 0 && config->width % config->experts == 0);
    struct tw_profile *p = tw_calloc(1, sizeof *p);
    if (p) {
        p->config = *config;
        p->latest = (struct twp_place){-1, -1};
    }
    if (!p || create_tables(p)) {
        tw_profile_destroy(p);
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for the statistics of %d layers",
                            config->layers);
    }
    *profile = p;
    return TW_OK;
}

static void destroy_layers(struct tw_profile *p)
{
    for (int l = 0; p->layer && l < p->config.layers; l++) {
        struct twp_layer *layer = &p->layer[l];
        tw_free(layer->seen);
        for (int t = 0; t < TW_TILE_WIDTHS; t++)
            tw_free(layer->tile[t]);
        tw_free(layer->abs_sum);
        tw_free(layer->abs_max);
    }
    int64_t tables = (int64_t)p->config.probes * p->config.layers;
    for (int64_t i = 0; p->probe && i < tables; i++) {
        tw_free(p->probe[i].hist);
        tw_free(p->probe[i].token);
        tw_free(p->probe[i].fired);
        tw_free(p->probe[i].first);
        tw_free(p->probe[i].last);
    }
    tw_free(p->layer);
    tw_free(p->probe);
}

void tw_profile_destroy(struct tw_profile *p)
{
    if (!p)
        return;
    destroy_layers(p);
    tw_free(p->token);
    tw_free(p->sum_even);
    tw_free(p->nnz_total);
    tw_free(p->position_count);
    tw_free(p->position_cells);
    tw_free(p->document);
    tw_free(p->segment);
    tw_free(p->place);
    tw_free(p->by_token);
    tw_free(p->row_sum);
    tw_free(p);
}

static enum tw_status check_shape(const struct tw_profile *p,
                                  const struct tw_batch *batch,
                                  const struct tw_layer_obs *obs,
                                  const struct tw_head_obs *head,
                                  struct tw_error *err)
{
    const struct tw_profile_config *c = &p->config;
    for (int l = 0; l < c->layers; l++) {
        const struct tw_layer_obs *o = &obs[l];
        if (o->rows != batch->rows || o->width != c->width ||
            o->probes != c->probes || o->experts != c->experts ||
            (c->with_magnitudes && !o->magnitude))
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "layer %d: observations of another shape", l);
    }
    if (c->with_loss && (!head || !head->nll))
        return tw_error_set(err, TW_ERR_MISMATCH, "no loss was computed");
    return TW_OK;
}

struct layer_work {
    struct tw_profile *profile;
    const struct tw_layer_obs *obs;
};

/* A layer that overflows leaves the sum's name where its error is looked for,
 * so that the first layer is named whatever the threads. */
static void add_layer(void *arg, int worker, int64_t layer)
{
    struct layer_work *work = arg;
    (void)worker;
    work->profile->layer[layer].failed =
        twp_layer_add(work->profile, &work->obs[layer], (int)layer);
}

static enum tw_status add_layers(struct tw_profile *p,
                                 const struct tw_layer_obs *obs,
                                 struct tw_error *err)
{
    struct layer_work work = {p, obs};
    if (p->config.pool)
        tw_threads_run(p->config.pool, add_layer, &work, p->config.layers);
    else
        for (int l = 0; l < p->config.layers; l++)
            add_layer(&work, 0, l);
    for (int l = 0; l < p->config.layers; l++)
        if (p->layer[l].failed)
            return tw_error_set(err, TW_ERR_OVERFLOW,
                                "layer %d: the sum of %s exceeds 64 bits", l,
                                p->layer[l].failed);
    return TW_OK;
}

enum tw_status tw_profile_add(struct tw_profile *p,
                              const struct tw_batch *batch,
                              const struct tw_layer_obs *obs,
                              const struct tw_head_obs *head,
                              struct tw_error *err)
{
    enum tw_status status = check_shape(p, batch, obs, head, err);
    if (!status)
        status = twp_batch_begin(p, batch, err);
    if (!status)
        status = twp_batch_count(p, batch, p->config.with_loss ? head->nll
                                                               : NULL, err);
    if (!status)
        status = twp_tokens_sum_even(p, batch, obs, err);
    if (status)
        return status;
    twp_tokens_count(p, batch);
    return add_layers(p, obs, err);
}

void tw_profile_totals(const struct tw_profile *p,
                       struct tw_profile_totals *totals)
{
    struct tw_profile_totals t = {.documents = (int64_t)p->documents,
                                  .predicted = p->predicted,
                                  .sum_nll = p->sum_nll};
    for (int kind = 0; kind < TWP_KINDS; kind++)
        *(TWP_IS_SKIPPED(kind) ? &t.skipped : &t.tokens) +=
            p->kind_count[kind];
    t.rows = t.tokens + t.skipped;
    for (size_t i = 0; i < p->documents; i++)
        t.sequences += p->document[i].sequences;
    for (int l = 0; l < p->config.layers; l++)
        t.overflow_rows += p->layer[l].overflow_rows;
    t.mean_nll = tw_ratio(t.sum_nll, t.predicted) / TW_NLL_SCALE;
    *totals = t;
}

void tw_profile_layer(const struct tw_profile *p, int def, int layer,
                      struct tw_profile_layer *summary)
{
    assert(def < p->config.probes && layer < p->config.layers);
    const struct twp_probe *probe = twp_probe(p, def, layer);
    struct tw_profile_layer s = {0};
    for (int b = 0; b < TWP_BLOCKS; b++) {
        s.tokens += p->block_count[b];
        s.sum_nnz += probe->block_sum[b];
    }
    for (int64_t n = 0; n < p->config.width; n++)
        s.dead += probe->fired[n] == 0;
    s.mean_nnz = tw_ratio(s.sum_nnz, s.tokens);
    *summary = s;
}
