/* The rows that belong to one layer: with a definition (layer_, block_,
 * class_, layer_position_, layer_token_, neuron_, hist_) and without (tile_,
 * magnitude_, route_). */
#include <config.h>

#include <string.h>

#include "analysis/profile_internal.h"
#include "analysis/statistics.h"
#include "db/store.h"

#define PUT(save, table, ...)                                               \
    tw_store_put((save)->store, table, (int64_t[]){(save)->run, __VA_ARGS__}, \
                 (save)->err)

static int64_t minimum(const struct twp_cell *cell)
{
    return (int64_t)(uint32_t)~cell->unmin;
}

static enum tw_status save_layer(const struct twp_save *save, int def,
                                 int layer)
{
    const struct twp_probe *probe = twp_probe(save->p, def, layer);
    int64_t bins = save->p->config.width + 1, tokens = 0, sum = 0;
    for (int b = 0; b < TWP_BLOCKS; b++) {
        tokens += save->p->block_count[b];
        sum += probe->block_sum[b];
    }
    int64_t min = tw_histogram_min(probe->hist, bins);
    int64_t max = tw_histogram_max(probe->hist, bins);
    return PUT(save, TW_TABLE_LAYER, def, layer, save->p->config.width, tokens,
               sum, min < 0 ? TW_NULL : min, max < 0 ? TW_NULL : max,
               save->p->layer[layer].sum_l1);
}

/* A block of skipped rows alone may still have losses. */
static enum tw_status save_blocks(const struct twp_save *save, int def,
                                  int layer)
{
    const struct tw_profile *p = save->p;
    const struct twp_probe *probe = twp_probe(p, def, layer);
    enum tw_status status = TW_OK;
    for (int b = 0; b < TWP_BLOCKS && !status; b++)
        if (p->block_count[b] || p->block_predicted[b])
            status = PUT(save, TW_TABLE_BLOCK, def, layer, b,
                         p->block_count[b], probe->block_sum[b],
                         p->block_predicted[b], p->block_nll[b]);
    return status;
}

static enum tw_status save_classes(const struct twp_save *save, int def,
                                   int layer)
{
    const struct twp_probe *probe = twp_probe(save->p, def, layer);
    enum tw_status status = TW_OK;
    for (int kind = 0; kind < TWP_KINDS && !status; kind++)
        if (save->p->kind_count[kind])
            status = PUT(save, TW_TABLE_CLASS, def, layer, kind / 2,
                         TWP_IS_SKIPPED(kind), save->p->kind_count[kind],
                         probe->kind_sum[kind], probe->kind_max[kind]);
    return status;
}

/* Rows of one layer under one definition, made as the store asks for them. */
struct rows {
    const struct twp_save *save;
    const struct twp_probe *probe;
    int def, layer;
    int64_t at; /* the next row's position, token, neuron or nnz */
};

static bool next_position(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct tw_profile *p = r->save->p;
    while (r->at < p->positions && !p->position_count[r->at])
        r->at++;
    if (r->at == p->positions)
        return false;
    const struct twp_cell *cell = &r->probe->position[r->at];
    TWP_FILL(row, r->save->run, r->def, r->layer, r->at,
             p->position_count[r->at], (int64_t)cell->sum, minimum(cell),
             cell->max);
    r->at++;
    return true;
}

static bool next_token(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct tw_profile *p = r->save->p;
    while (r->at < p->config.vocab && !p->token[r->at].count)
        r->at++;
    if (r->at == p->config.vocab)
        return false;
    const struct twp_cell *cell = &r->probe->token[r->at];
    TWP_FILL(row, r->save->run, r->def, r->layer, r->at, p->token[r->at].count,
             (int64_t)cell->sum, minimum(cell), cell->max);
    r->at++;
    return true;
}

static bool next_histogram(void *arg, int64_t *row)
{
    struct rows *r = arg;
    int64_t width = r->save->p->config.width;
    while (r->at <= width && !r->probe->hist[r->at])
        r->at++;
    if (r->at > width)
        return false;
    TWP_FILL(row, r->save->run, r->def, r->layer, r->at, r->probe->hist[r->at]);
    r->at++;
    return true;
}

static int64_t bits_of(double real)
{
    int64_t bits;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

static bool next_neuron(void *arg, int64_t *row)
{
    struct rows *r = arg;
    const struct twp_save *save = r->save;
    const struct tw_profile_config *c = &save->p->config;
    const struct twp_layer *l = &save->p->layer[r->layer];
    int64_t n = r->at++;
    if (n == c->width)
        return false;
    int64_t fired = r->probe->fired[n], expert = n / (c->width / c->experts);
    struct twp_place none = {TW_NULL, TW_NULL};
    struct twp_place first = fired ? r->probe->first[n] : none;
    struct twp_place last = fired ? r->probe->last[n] : none;
    int64_t clock[2] = {TW_NULL, TW_NULL};
    if (save->clock && fired) {
        clock[0] = twp_clock_at(save->p, save->clock, first);
        clock[1] = twp_clock_at(save->p, save->clock, last);
    }
    int is_measured = c->with_magnitudes && r->def == 0;
    TWP_FILL(row, save->run, r->def, r->layer, expert, n, l->seen[expert],
             fired, first.document, first.row, last.document, last.row,
             clock[0], clock[1], is_measured ? l->abs_sum[n] : TW_NULL,
             is_measured ? bits_of((double)l->abs_max[n]) : TW_NULL);
    return true;
}

enum tw_status twp_save_probe(const struct twp_save *save, int def, int layer)
{
    static const struct {
        enum tw_table table;
        tw_store_next_fn *next;
    } parts[] = {{TW_TABLE_LAYER_POSITION, next_position},
                 {TW_TABLE_LAYER_TOKEN, next_token},
                 {TW_TABLE_HIST, next_histogram},
                 {TW_TABLE_NEURON, next_neuron}};
    enum tw_status status = save_layer(save, def, layer);
    if (!status)
        status = save_blocks(save, def, layer);
    if (!status)
        status = save_classes(save, def, layer);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++) {
        struct rows rows = {save, twp_probe(save->p, def, layer), def, layer,
                            0};
        status = tw_store_put_rows(save->store, parts[i].table, parts[i].next,
                                   &rows, save->err);
    }
    return status;
}

enum tw_status twp_save_layer(const struct twp_save *save, int layer)
{
    const struct twp_layer *l = &save->p->layer[layer];
    int64_t rows = 0;
    for (int kind = 0; kind < TWP_KINDS; kind++)
        rows += save->p->kind_count[kind];
    enum tw_status status =
        PUT(save, TW_TABLE_ROUTE, layer, rows, l->overflow_tiles,
            l->overflow_rows, l->dense_rows);
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        for (int i = 0; i <= twp_tile_width[t] && !status; i++)
            if (l->tile[t][i])
                status = PUT(save, TW_TABLE_TILE, layer, twp_tile_width[t], i,
                             l->tile[t][i]);
    for (int b = 0; b < TW_MAGNITUDE_BINS && !status; b++)
        if (l->magnitude[b])
            status = PUT(save, TW_TABLE_MAGNITUDE, layer,
                         b - TW_MAGNITUDE_BIAS, l->magnitude[b]);
    return status;
}
