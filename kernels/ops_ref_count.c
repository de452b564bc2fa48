/* Reference counting: which neurons of a row are active under a definition,
 * and what a row adds to the observations. */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include <math.h>
#include <string.h>

static const int tile_widths[TW_TILE_WIDTHS] = {64, 128, 256};

/* The largest |h| not taken yet, the lower number of equals; -1: all taken or
 * the rest is zero. NaN is never larger, so it is never taken. */
static int64_t next_largest(const float *h, const bool *is_taken, int64_t width)
{
    int64_t best = -1;
    float largest = 0;
    for (int64_t n = 0; n < width; n++)
        if (!is_taken[n] && fabsf(h[n]) > largest) {
            largest = fabsf(h[n]);
            best = n;
        }
    return best;
}

/* Takes the largest until `most` neurons or `need` of the sum are reached. The
 * sums run from the largest down, so that a share of 1 is all that aren't
 * zero. */
static double take_largest(const float *h, int64_t width, double most,
                           double need, bool *out)
{
    double sum = 0;
    memset(out, 0, (size_t)width * sizeof *out);
    for (double taken = 0; taken < most && sum < need; taken++) {
        int64_t n = next_largest(h, out, width);
        if (n < 0)
            break;
        out[n] = true;
        sum += fabs((double)h[n]);
    }
    return sum;
}

void twp_ref_active(const struct tw_active *active, const float *a,
                    const float *h, const bool *pattern, int64_t width,
                    bool *out)
{
    double arg = active->arg;
    if (active->kind == TW_ACTIVE_TOPK) {
        take_largest(h, width, arg, INFINITY, out);
        return;
    }
    if (active->kind == TW_ACTIVE_TOPP) {
        double total = take_largest(h, width, INFINITY, INFINITY, out);
        take_largest(h, width, INFINITY, arg * total, out);
        return;
    }
    for (int64_t n = 0; n < width; n++)
        switch (active->kind) {
        case TW_ACTIVE_HIDDEN:
            out[n] = h[n] != 0;
            break;
        case TW_ACTIVE_GATE:
            out[n] = pattern[n];
            break;
        case TW_ACTIVE_ABS:
            out[n] = fabs((double)h[n]) > arg;
            break;
        default: /* TW_ACTIVE_GATE_ABS */
            out[n] = fabs((double)a[n]) > arg;
        }
}

static void count_tiles(const struct twp_ref_row *row, struct tw_layer_obs *obs)
{
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        for (int64_t from = 0; from < row->width; from += tile_widths[t]) {
            int count = 0;
            for (int64_t n = from;
                 n < from + tile_widths[t] && n < row->width; n++)
                count += row->pattern[n];
            obs->tiles[t][count]++;
        }
}

static int magnitude_bin(float h)
{
    int bin = ilogbf(h) + TW_MAGNITUDE_BIAS;
    if (bin < 0)
        return 0;
    return bin < TW_MAGNITUDE_BINS ? bin : TW_MAGNITUDE_BINS - 1;
}

/* The primary's firings in abs_*, every h != 0 in the histogram. What isn't
 * finite has no magnitude: bad_row tells of it. */
static void count_magnitudes(const struct twp_ref_row *row,
                             struct tw_layer_obs *obs)
{
    if (!obs->magnitude)
        return;
    for (int64_t n = 0; n < row->width; n++) {
        float size = fabsf(row->h[n]);
        if (!isfinite(size))
            continue;
        if (size != 0)
            obs->magnitude[magnitude_bin(size)]++;
        if (!row->is_active[n])
            continue;
        obs->abs_sum[n] += llrint((double)size * TW_NLL_SCALE);
        if (size > obs->abs_max[n])
            obs->abs_max[n] = size;
    }
}

static void count_probe(const struct twp_ref_row *row, int probe,
                        struct tw_layer_obs *obs)
{
    bool is_skipped = row->row_class & TW_ROW_SKIPPED;
    for (int64_t n = 0; n < row->width; n++) {
        int64_t at = probe * row->width + n;
        if (!row->is_active[n])
            continue;
        obs->nnz[probe * obs->rows + row->row]++;
        if (is_skipped)
            continue;
        obs->fired[at]++;
        if (obs->first[at] == UINT32_MAX)
            obs->first[at] = (uint32_t)row->row;
        obs->last[at] = (uint32_t)row->row;
    }
    if (probe == 0 && !is_skipped)
        count_magnitudes(row, obs);
}

static void find_bad(const struct twp_ref_row *row, struct tw_layer_obs *obs)
{
    for (int64_t n = 0; n < row->width && obs->bad_row < 0; n++)
        if (!isfinite(row->h[n])) {
            obs->bad_row = (int32_t)row->row;
            obs->bad_neuron = (int32_t)n;
        }
}

void twp_ref_count(const struct twp_ref_row *row,
                   const struct tw_probes *probes, struct tw_layer_obs *obs)
{
    double l1 = 0;
    for (int64_t n = 0; n < row->width; n++)
        l1 += fabs((double)row->h[n]);
    obs->l1[row->row] = (float)l1;
    find_bad(row, obs);
    for (int p = 0; p < probes->count; p++) {
        twp_ref_active(&probes->active[p], row->a, row->h, row->pattern,
                       row->width, row->is_active);
        count_probe(row, p, obs);
    }
    if (row->row_class & TW_ROW_SKIPPED)
        return;
    obs->seen[0]++;
    count_tiles(row, obs);
}

enum tw_status twp_ref_set(const struct twp_ref_row *row,
                           const struct tw_active *active,
                           struct tw_layer_obs *obs, struct tw_error *err)
{
    int64_t at = obs->set_start[row->row], most = at + row->width;
    enum tw_status status = tw_layer_obs_set_room(obs, most, err);
    if (status != TW_OK)
        return status;
    twp_ref_active(active, row->a, row->h, row->pattern, row->width,
                   row->is_active);
    for (int64_t n = 0; n < row->width; n++)
        if (row->is_active[n]) {
            obs->set[at] = (uint32_t)n;
            obs->set_value[at++] = row->h[n];
        }
    obs->set_start[row->row + 1] = at;
    return TW_OK;
}
