/* The inverse of a save: rows added to the state, so that a run goes on, or
 * several parts become one. Rows come from a file, so every index is checked
 * before it is used and sums are added with checks; position_ and the derived
 * columns hold nothing that others don't. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "analysis/profile_internal.h"
#include "analysis/store_profile.h"

/* No run counts that many rows; keeps sums of counts far from the end. */
#define COUNT_LIMIT ((int64_t)1 << 53)

/* One row into the state; MISMATCH comes without a message, restore_row names
 * the table. */
typedef enum tw_status row_fn(struct tw_profile *p, const int64_t *v,
                              struct tw_error *err);

static int is_in(int64_t value, int64_t limit)
{
    return value >= 0 && value < limit;
}

static int is_count(int64_t value)
{
    return is_in(value, COUNT_LIMIT);
}

/* The probe of a row that starts run, definition, layer; NULL: none. */
static struct twp_probe *probe_of(const struct tw_profile *p, const int64_t *v)
{
    if (!is_in(v[1], p->config.probes) || !is_in(v[2], p->config.layers))
        return NULL;
    return twp_probe(p, (int)v[1], (int)v[2]);
}

/* Such rows repeat for each definition and layer what is common to all. */
static int is_first(const int64_t *v)
{
    return v[1] == 0 && v[2] == 0;
}

static uint32_t greater(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* sum, minimum, maximum in v[0..2]. */
static int add_cell(const struct tw_profile *p, struct twp_cell *cell,
                    const int64_t *v)
{
    int64_t width = p->config.width;
    if (v[0] < 0 || !is_in(v[1], width + 1) || !is_in(v[2], width + 1) ||
        cell->sum + (uint64_t)v[0] > INT64_MAX)
        return 1;
    cell->sum += (uint64_t)v[0];
    cell->unmin = greater(cell->unmin, ~(uint32_t)v[1]);
    cell->max = greater(cell->max, (uint32_t)v[2]);
    return 0;
}

static enum tw_status document_row(struct tw_profile *p, const int64_t *v,
                                   struct tw_error *err)
{
    if (v[1] < 0 || !is_count(v[2]) || !is_count(v[3]))
        return TW_ERR_MISMATCH;
    return twp_document_add(p, v[1], v[2], v[3], err);
}

static enum tw_status layer_row(struct tw_profile *p, const int64_t *v,
                                struct tw_error *err)
{
    (void)err;
    if (!probe_of(p, v) || v[3] != p->config.width)
        return TW_ERR_MISMATCH;
    if (v[1] == 0 && twp_add(&p->layer[v[2]].sum_l1, v[8]))
        return TW_ERR_MISMATCH;
    return TW_OK;
}

static enum tw_status block_row(struct tw_profile *p, const int64_t *v,
                                struct tw_error *err)
{
    struct twp_probe *probe = probe_of(p, v);
    (void)err;
    if (!probe || !is_in(v[3], TWP_BLOCKS) || !is_count(v[4]) || v[5] < 0 ||
        !is_count(v[6]))
        return TW_ERR_MISMATCH;
    if (twp_add(&probe->block_sum[v[3]], v[5]))
        return TW_ERR_MISMATCH;
    if (!is_first(v))
        return TW_OK;
    p->block_count[v[3]] += v[4];
    p->block_predicted[v[3]] += v[6];
    p->predicted += v[6];
    return twp_add(&p->block_nll[v[3]], v[7]) || twp_add(&p->sum_nll, v[7])
               ? TW_ERR_MISMATCH
               : TW_OK;
}

static enum tw_status class_row(struct tw_profile *p, const int64_t *v,
                                struct tw_error *err)
{
    struct twp_probe *probe = probe_of(p, v);
    (void)err;
    if (!probe || !is_in(v[3], TW_ROW_CLASSES) || !is_in(v[4], 2) ||
        !is_count(v[5]) || v[6] < 0 || !is_in(v[7], p->config.width + 1))
        return TW_ERR_MISMATCH;
    int64_t kind = v[3] * 2 + v[4];
    probe->kind_max[kind] = greater(probe->kind_max[kind], (uint32_t)v[7]);
    if (is_first(v))
        p->kind_count[kind] += v[5];
    return twp_add(&probe->kind_sum[kind], v[6]) ||
                   twp_add(&p->nnz_total[v[1]], v[6])
               ? TW_ERR_MISMATCH
               : TW_OK;
}

static enum tw_status position_row(struct tw_profile *p, const int64_t *v,
                                   struct tw_error *err)
{
    if (!probe_of(p, v) || !is_in(v[3], INT32_MAX) || !is_count(v[4]))
        return TW_ERR_MISMATCH;
    enum tw_status status = twp_positions_reserve(p, v[3] + 1, err);
    if (status)
        return status;
    if (is_first(v))
        p->position_count[v[3]] += v[4];
    return add_cell(p, &probe_of(p, v)->position[v[3]], v + 5) ? TW_ERR_MISMATCH
                                                               : TW_OK;
}

static enum tw_status layer_token_row(struct tw_profile *p, const int64_t *v,
                                      struct tw_error *err)
{
    struct twp_probe *probe = probe_of(p, v);
    (void)err;
    if (!probe || !is_in(v[3], p->config.vocab) ||
        add_cell(p, &probe->token[v[3]], v + 5))
        return TW_ERR_MISMATCH;
    return TW_OK;
}

static enum tw_status token_row(struct tw_profile *p, const int64_t *v,
                                struct tw_error *err)
{
    (void)err;
    if (!is_in(v[1], p->config.probes) || !is_in(v[2], p->config.vocab) ||
        !is_count(v[3]) || !is_count(v[4]) || !is_count(v[6]) || v[7] < 0)
        return TW_ERR_MISMATCH;
    if (v[1] == 0) {
        struct twp_token *token = &p->token[v[2]];
        token->count += v[3];
        token->in_sequences += v[4];
        token->count_even += v[6];
    }
    return twp_add(&p->sum_even[v[1] * p->config.vocab + v[2]], v[7])
               ? TW_ERR_MISMATCH
               : TW_OK;
}

static enum tw_status magnitudes_of(struct tw_profile *p, const int64_t *v)
{
    struct twp_layer *layer = &p->layer[v[2]];
    double max;
    if (!p->config.with_magnitudes || v[1] != 0)
        return TW_OK;
    memcpy(&max, &v[14], sizeof max);
    if (v[13] == TW_NULL || v[14] == TW_NULL || !isfinite(max))
        return TW_ERR_MISMATCH;
    if (max > layer->abs_max[v[4]])
        layer->abs_max[v[4]] = (float)max;
    return twp_add(&layer->abs_sum[v[4]], v[13]) ? TW_ERR_MISMATCH : TW_OK;
}

static void add_firings(struct tw_profile *p, struct twp_probe *probe,
                        const int64_t *v)
{
    struct twp_place first = {v[7], v[8]}, last = {v[9], v[10]};
    bool is_new = probe->fired[v[4]] == 0;
    if (is_new || twp_is_before(first, probe->first[v[4]]))
        probe->first[v[4]] = first;
    if (is_new || twp_is_before(probe->last[v[4]], last))
        probe->last[v[4]] = last;
    probe->fired[v[4]] += v[6];
    if (twp_is_before(p->latest, last))
        p->latest = last;
}

static enum tw_status neuron_row(struct tw_profile *p, const int64_t *v,
                                 struct tw_error *err)
{
    struct twp_probe *probe = probe_of(p, v);
    int64_t width = p->config.width, per_expert = width / p->config.experts;
    (void)err;
    if (!probe || !is_in(v[4], width) || v[3] != v[4] / per_expert ||
        !is_count(v[5]) || !is_count(v[6]))
        return TW_ERR_MISMATCH;
    if (v[6] > 0 && (!twp_document_is_known(p, v[7]) || !is_count(v[8]) ||
                     !twp_document_is_known(p, v[9]) || !is_count(v[10])))
        return TW_ERR_MISMATCH;
    if (v[1] == 0 && v[4] % per_expert == 0) /* the same for all of them */
        p->layer[v[2]].seen[v[3]] += v[5];
    if (v[6] > 0)
        add_firings(p, probe, v);
    return magnitudes_of(p, v);
}

static enum tw_status hist_row(struct tw_profile *p, const int64_t *v,
                               struct tw_error *err)
{
    struct twp_probe *probe = probe_of(p, v);
    (void)err;
    if (!probe || !is_in(v[3], p->config.width + 1) || !is_count(v[4]))
        return TW_ERR_MISMATCH;
    probe->hist[v[3]] += v[4];
    return TW_OK;
}

static enum tw_status tile_row(struct tw_profile *p, const int64_t *v,
                               struct tw_error *err)
{
    (void)err;
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        if (v[2] == twp_tile_width[t] && is_in(v[1], p->config.layers) &&
            is_in(v[3], v[2] + 1) && v[4] >= 0)
            return twp_add(&p->layer[v[1]].tile[t][v[3]], v[4])
                       ? TW_ERR_MISMATCH
                       : TW_OK;
    return TW_ERR_MISMATCH;
}

static enum tw_status magnitude_row(struct tw_profile *p, const int64_t *v,
                                    struct tw_error *err)
{
    (void)err;
    if (!is_in(v[1], p->config.layers) || v[3] < 0 || v[2] < -1024 ||
        !is_in(v[2] + TW_MAGNITUDE_BIAS, TW_MAGNITUDE_BINS))
        return TW_ERR_MISMATCH;
    return twp_add(&p->layer[v[1]].magnitude[v[2] + TW_MAGNITUDE_BIAS], v[3])
               ? TW_ERR_MISMATCH
               : TW_OK;
}

static enum tw_status route_row(struct tw_profile *p, const int64_t *v,
                                struct tw_error *err)
{
    (void)err;
    if (!is_in(v[1], p->config.layers) || !is_count(v[3]) || !is_count(v[4]) ||
        !is_count(v[5]))
        return TW_ERR_MISMATCH;
    struct twp_layer *layer = &p->layer[v[1]];
    layer->overflow_tiles += v[3];
    layer->overflow_rows += v[4];
    layer->dense_rows += v[5];
    return TW_OK;
}

/* Documents first: neurons refer to them; layer_ before neuron_. */
static const struct restore_table {
    enum tw_table table;
    const char *name;
    row_fn *row;
} tables[] = {
    {TW_TABLE_DOCUMENT, "document_", document_row},
    {TW_TABLE_LAYER, "layer_", layer_row},
    {TW_TABLE_BLOCK, "block_", block_row},
    {TW_TABLE_CLASS, "class_", class_row},
    {TW_TABLE_LAYER_POSITION, "layer_position_", position_row},
    {TW_TABLE_LAYER_TOKEN, "layer_token_", layer_token_row},
    {TW_TABLE_TOKEN, "token_", token_row},
    {TW_TABLE_NEURON, "neuron_", neuron_row},
    {TW_TABLE_HIST, "hist_", hist_row},
    {TW_TABLE_TILE, "tile_", tile_row},
    {TW_TABLE_MAGNITUDE, "magnitude_", magnitude_row},
    {TW_TABLE_ROUTE, "route_", route_row},
};

struct restore {
    struct tw_profile *profile;
    const struct restore_table *table;
    int64_t rows;
};

static enum tw_status restore_row(void *arg, const int64_t *values,
                                  struct tw_error *err)
{
    struct restore *restore = arg;
    enum tw_status status = restore->table->row(restore->profile, values, err);
    restore->rows++;
    if (status == TW_ERR_MISMATCH)
        tw_error_set(err, status, "rows of %s don't fit this profile",
                     restore->table->name);
    return status;
}

/* layer_ has a row for every layer and definition (none at all before the
 * first checkpoint), neuron_ one for every neuron of them: a run of fewer is
 * another run. */
static int is_complete(const struct restore *restore, int64_t *layer_rows)
{
    const struct tw_profile_config *c = &restore->profile->config;
    if (restore->table->table == TW_TABLE_NEURON)
        return restore->rows == *layer_rows * c->width;
    if (restore->table->table != TW_TABLE_LAYER)
        return 1;
    *layer_rows = restore->rows;
    return restore->rows == 0 ||
           restore->rows == (int64_t)c->layers * c->probes;
}

enum tw_status tw_profile_restore(struct tw_profile *profile,
                                  struct tw_store *store, int64_t run,
                                  struct tw_error *err)
{
    int64_t layer_rows = 0;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct restore restore = {profile, &tables[i], 0};
        enum tw_status status = tw_store_scan(store, tables[i].table, run,
                                              restore_row, &restore, err);
        if (status)
            return status;
        if (!is_complete(&restore, &layer_rows))
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "%s lacks rows of this profile",
                                tables[i].name);
    }
    return TW_OK;
}
