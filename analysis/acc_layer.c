/* One layer of one batch: non-zeros by histogram, block, kind, position and
 * token, then l1, tiles, magnitudes and routes. Layers write to their own
 * memory only. The inner loops run over segments, whose rows share everything
 * but token and position. */
#include <config.h>

#include <assert.h>
#include <math.h>

#include "analysis/profile_internal.h"

const int twp_tile_width[TW_TILE_WIDTHS] = {64, 128, 256};

/* In order of tokens, as the table outgrows the caches: rows of one token hit
 * the same line, and the next lines are asked for in time. */
static void add_tokens(const struct tw_profile *p, struct twp_cell *cell,
                       const uint32_t *nnz)
{
    enum { AHEAD = 24 };
    const struct twp_token_row *at = p->by_token;
    int64_t i = 0, rows = p->counted;
    for (; i + AHEAD < rows; i++) {
        __builtin_prefetch(&cell[at[i + AHEAD].token], 1);
        twp_cell_add(&cell[at[i].token], nnz[at[i].row]);
    }
    for (; i < rows; i++)
        twp_cell_add(&cell[at[i].token], nnz[at[i].row]);
}

static void add_segment(struct twp_probe *probe, const struct twp_segment *seg,
                        const uint32_t *nnz, uint32_t width)
{
    int64_t sum = 0, rows = seg->end - seg->begin;
    uint32_t max = probe->kind_max[seg->kind];
    nnz += seg->begin;
    for (int64_t i = 0; i < rows; i++) {
        sum += nnz[i];
        max = max > nnz[i] ? max : nnz[i];
    }
    assert(max <= width);
    (void)width;
    probe->kind_sum[seg->kind] += sum;
    probe->kind_max[seg->kind] = max;
    if (TWP_IS_SKIPPED(seg->kind))
        return;
    probe->block_sum[seg->block] += sum;
    struct twp_cell *position = probe->position + seg->position;
    for (int64_t i = 0; i < rows; i++)
        twp_cell_add(&position[i], nnz[i]);
    for (int64_t i = 0; i < rows; i++)
        probe->hist[nnz[i]]++;
}

/* The sum of rounded l1 over counted rows; 1 if it doesn't fit. */
static int add_l1(struct tw_profile *p, struct twp_layer *layer,
                  const float *l1)
{
    for (size_t i = 0; i < p->segments; i++) {
        const struct twp_segment *seg = &p->segment[i];
        if (TWP_IS_SKIPPED(seg->kind))
            continue;
        for (int64_t row = seg->begin; row < seg->end; row++) {
            double scaled = (double)l1[row] * TW_L1_SCALE;
            if (!(fabs(scaled) < 0x1p63) ||
                twp_add(&layer->sum_l1, llrint(scaled)))
                return 1;
        }
    }
    return 0;
}

/* sum[i] += count[i]; 1 if one doesn't fit. */
static int add_counts(int64_t *sum, const uint64_t *count, int64_t n)
{
    int is_over = 0;
    for (int64_t i = 0; i < n; i++)
        is_over |= twp_add_unsigned(&sum[i], count[i]);
    return is_over;
}

static int add_magnitudes(struct tw_profile *p, struct twp_layer *layer,
                          const struct tw_layer_obs *obs)
{
    int is_over =
        add_counts(layer->magnitude, obs->magnitude, TW_MAGNITUDE_BINS);
    for (int64_t n = 0; n < p->config.width; n++) {
        is_over |= twp_add(&layer->abs_sum[n], obs->abs_sum[n]);
        if (obs->abs_max[n] > layer->abs_max[n])
            layer->abs_max[n] = obs->abs_max[n];
    }
    return is_over;
}

const char *twp_layer_add(struct tw_profile *p, const struct tw_layer_obs *obs,
                          int l)
{
    struct twp_layer *layer = &p->layer[l];
    for (int def = 0; def < p->config.probes; def++) {
        const uint32_t *nnz = obs->nnz + (int64_t)def * obs->rows;
        struct twp_probe *probe = twp_probe(p, def, l);
        for (size_t i = 0; i < p->segments; i++)
            add_segment(probe, &p->segment[i], nnz, (uint32_t)p->config.width);
        add_tokens(p, probe->token, nnz);
    }
    if (add_l1(p, layer, obs->l1))
        return "l1";
    int is_over = add_counts(layer->seen, obs->seen, p->config.experts);
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        is_over |= add_counts(layer->tile[t], obs->tiles[t],
                              twp_tile_width[t] + 1);
    is_over |= twp_add_unsigned(&layer->overflow_tiles, obs->overflow_tiles);
    is_over |= twp_add_unsigned(&layer->overflow_rows, obs->overflow_rows);
    is_over |= twp_add_unsigned(&layer->dense_rows, obs->dense_rows);
    if (is_over)
        return "rows or tiles";
    if (p->config.with_magnitudes && add_magnitudes(p, layer, obs))
        return "magnitudes";
    return twp_neurons_add(p, obs, l);
}
