/* A copy of a profile, field by field: what a save reads. Tables have the same
 * sizes, for they are made the same way. */
#include <config.h>

#include <assert.h>
#include <string.h>

#include "analysis/profile_internal.h"
#include "base/memory.h"

#define COPY(to, from, field, count)                                           \
    memcpy((to)->field, (from)->field, (size_t)(count) * sizeof *(to)->field)

static void copy_layer(struct twp_layer *to, const struct twp_layer *from,
                       const struct tw_profile_config *c)
{
    COPY(to, from, seen, c->experts);
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        COPY(to, from, tile[t], twp_tile_width[t] + 1);
    if (c->with_magnitudes) {
        COPY(to, from, abs_sum, c->width);
        COPY(to, from, abs_max, c->width);
    }
    COPY(to, from, magnitude, TW_MAGNITUDE_BINS);
    to->sum_l1 = from->sum_l1;
    to->overflow_tiles = from->overflow_tiles;
    to->overflow_rows = from->overflow_rows;
    to->dense_rows = from->dense_rows;
}

static void copy_probe(struct twp_probe *to, const struct twp_probe *from,
                       const struct tw_profile_config *c)
{
    COPY(to, from, hist, c->width + 1);
    COPY(to, from, token, c->vocab);
    COPY(to, from, fired, c->width);
    COPY(to, from, first, c->width);
    COPY(to, from, last, c->width);
    COPY(to, from, block_sum, TWP_BLOCKS);
    COPY(to, from, kind_sum, TWP_KINDS);
    COPY(to, from, kind_max, TWP_KINDS);
}

static void copy_totals(struct tw_profile *to, const struct tw_profile *from)
{
    const struct tw_profile_config *c = &from->config;
    int64_t probes = c->probes, tables = probes * c->layers;
    COPY(to, from, token, c->vocab);
    COPY(to, from, sum_even, probes * c->vocab);
    COPY(to, from, nnz_total, probes);
    if (from->positions > 0) {
        COPY(to, from, position_count, from->positions);
        COPY(to, from, position_cells, tables * from->positions);
    }
    COPY(to, from, kind_count, TWP_KINDS);
    COPY(to, from, block_count, TWP_BLOCKS);
    COPY(to, from, block_predicted, TWP_BLOCKS);
    COPY(to, from, block_nll, TWP_BLOCKS);
    to->predicted = from->predicted;
    to->sum_nll = from->sum_nll;
    to->stamp = from->stamp;
    to->latest = from->latest;
    if (from->documents > 0)
        COPY(to, from, document, from->documents);
    to->documents = from->documents;
}

/* Room for what grows. */
static enum tw_status reserve(struct tw_profile *to,
                              const struct tw_profile *from,
                              struct tw_error *err)
{
    if (from->documents > 0 &&
        tw_grow((void **)&to->document, &to->documents_room, from->documents,
                sizeof *to->document))
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for %zu "
                            "documents",
                            from->documents);
    return from->positions > 0 ? twp_positions_reserve(to, from->positions, err)
                               : TW_OK;
}

enum tw_status tw_profile_copy(const struct tw_profile *from,
                               struct tw_profile **copy, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!*copy)
        status = tw_profile_create(&from->config, copy, err);
    if (!status)
        status = reserve(*copy, from, err);
    if (status)
        return status;
    struct tw_profile *to = *copy;
    int64_t tables = (int64_t)from->config.probes * from->config.layers;
    assert(to->positions == from->positions);
    for (int l = 0; l < from->config.layers; l++)
        copy_layer(&to->layer[l], &from->layer[l], &from->config);
    for (int64_t i = 0; i < tables; i++)
        copy_probe(&to->probe[i], &from->probe[i], &from->config);
    copy_totals(to, from);
    return TW_OK;
}
