/* Counting: what a row adds to the observations. Sums of integers, minima and
 * maxima in worker-private memory, merged after the region in any order; nnz
 * and l1 go to their row's own place. So counts are exact and free of threads,
 * and no output depends on them.
 *
 * A sparse row is counted over its list of entries, a dense row over bits.
 * l1 = the sum of 16 lanes (neuron mod 16) in double, each ascending, folded in
 * lane order: one value on both paths. */
#include <config.h>

#include "kernels/cpu/ffn_internal.h"

#include <math.h>
#include <string.h>

#define MAGNITUDE_LIMIT 4.611686018427388e18 /* 2^62: one |h| that is summed   \
                                              */

float twp_threshold(double t)
{
    float f = (float)t;
    return (double)f > t ? nextafterf(f, -INFINITY) : f;
}

bool twp_needs_whole_row(const struct tw_probes *probes)
{
    for (int p = 0; p < probes->count; p++)
        if (probes->active[p].kind == TW_ACTIVE_TOPP ||
            probes->active[p].kind == TW_ACTIVE_TOPK)
            return true;
    return false;
}

void twp_count_tile(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, int64_t tile, const uint8_t part[4])
{
    struct twp_counts *c = work->counts;
    int64_t left = call->ffn->desc.d_ff - tile * TWP_TILE;
    int parts = left >= TWP_TILE ? 4 : (int)((left + 63) / 64);
    int all = 0;
    for (int i = 0; i < parts; i++)
        all += part[i];
    c->overflow_tiles += !call->is_dense && all > call->ffn->slots;
    if (!twp_is_counted(call, row))
        return;
    for (int i = 0; i < parts; i++)
        c->tiles[0][part[i]]++;
    for (int i = 0; i < parts; i += 2)
        c->tiles[1][part[i] + (i + 1 < parts ? part[i + 1] : 0)]++;
    c->tiles[2][all]++;
}

static int magnitude_bin(float size)
{
    int bin = ilogbf(size) + TW_MAGNITUDE_BIAS;
    if (bin < 0)
        return 0;
    return bin < TW_MAGNITUDE_BINS ? bin : TW_MAGNITUDE_BINS - 1;
}

/* One neuron of a counted row; what isn't finite has no magnitude: bad_row
 * tells of it. */
static void count_magnitude(struct twp_counts *c, uint32_t neuron, float h,
                            bool is_firing)
{
    float size = fabsf(h);
    if (!isfinite(size))
        return;
    if (size != 0)
        c->magnitude[magnitude_bin(size)]++;
    if (!is_firing)
        return;
    double units = (double)size * TW_NLL_SCALE;
    if (units > MAGNITUDE_LIMIT ||
        __builtin_add_overflow(c->abs_sum[neuron], llrint(units),
                               &c->abs_sum[neuron]))
        c->is_overflown = true;
    if (size > c->abs_max[neuron])
        c->abs_max[neuron] = size;
}

static bool is_active(const struct tw_active *active, float a, float h)
{
    switch (active->kind) {
    case TW_ACTIVE_HIDDEN:
        return h != 0;
    case TW_ACTIVE_ABS:
        return fabs((double)h) > active->arg;
    case TW_ACTIVE_GATE_ABS:
        return fabs((double)a) > active->arg;
    default: // gate: all that was packed
        return true;
    }
}

/* That probe's part of an array [probes][padded]. */
static uint32_t *of_probe(const struct twp_ffn_call *call, uint32_t *array,
                          int probe)
{
    return array + (int64_t)probe * call->ffn->padded;
}

static void fire(uint32_t *fired, uint32_t *first, uint32_t *last, uint32_t n,
                 uint32_t row)
{
    fired[n]++;
    first[n] = row < first[n] ? row : first[n];
    last[n] = row > last[n] ? row : last[n];
}

static void count_probe(const struct twp_ffn_call *call, struct twp_work *work,
                        int probe, int64_t row, const uint32_t *neuron,
                        const float *a, const float *h, int64_t n)
{
    struct twp_counts *c = work->counts;
    struct twp_sets *sets = probe == 0 ? work->sets : NULL;
    const struct tw_active *active = &call->probes->active[probe];
    uint32_t *nnz = call->obs->nnz + (int64_t)probe * call->obs->rows + row;
    bool is_counted = twp_is_counted(call, row);
    uint32_t *fired = of_probe(call, c->fired, probe);
    uint32_t *first = of_probe(call, c->first, probe);
    uint32_t *last = of_probe(call, c->last, probe);
    if (sets)
        twp_sets_begin(sets, row, n);
    for (int64_t i = 0; i < n; i++) {
        bool is_firing = is_active(active, a[i], h[i]);
        *nnz += is_firing;
        if (sets && is_firing)
            twp_sets_add(sets, neuron[i], h[i]);
        if (!is_counted)
            continue;
        if (is_firing)
            fire(fired, first, last, neuron[i], (uint32_t)row);
        if (probe == 0 && call->obs->magnitude)
            count_magnitude(c, neuron[i], h[i], is_firing);
    }
}

static void count_top(const struct twp_ffn_call *call, struct twp_work *work,
                      int probe, int64_t row, const float *h,
                      const uint64_t *bits)
{
    struct twp_counts *c = work->counts;
    bool is_counted = twp_is_counted(call, row);
    int64_t padded = call->ffn->padded;
    call->obs->nnz[(int64_t)probe * call->obs->rows + row] = call->simd->tally(
        bits, padded, (uint32_t)row,
        is_counted ? of_probe(call, c->fired, probe) : NULL,
        of_probe(call, c->first, probe), of_probe(call, c->last, probe));
    if (probe == 0 && work->sets)
        twp_sets_bits(work->sets, row, bits, h, padded);
    if (probe != 0 || !is_counted || !call->obs->magnitude)
        return;
    for (int64_t n = 0; n < call->ffn->desc.d_ff; n++) {
        bool is_firing = bits[n / 64] >> (n % 64) & 1;
        if (h[n] != 0 || is_firing)
            count_magnitude(c, (uint32_t)n, h[n], is_firing);
    }
}

void twp_count_list(const struct twp_ffn_call *call, struct twp_work *work,
                    int64_t row, const uint32_t *neuron, const float *a,
                    const float *h, int64_t n, double lane[16])
{
    bool is_finite = true;
    for (int64_t i = 0; i < n; i++) {
        lane[neuron[i] % 16] += fabs((double)h[i]);
        is_finite &= isfinite(h[i]) != 0;
    }
    if (!is_finite)
        twp_count_bad(work, row, neuron, h, n);
    bool has_row = false;
    uint64_t *bits = work->bits + call->ffn->padded / 64;
    for (int p = 0; p < call->probes->count; p++) {
        const struct tw_active *active = &call->probes->active[p];
        if (active->kind != TW_ACTIVE_TOPP && active->kind != TW_ACTIVE_TOPK) {
            count_probe(call, work, p, row, neuron, a, h, n);
            continue;
        }
        if (!has_row) { // spread over the row, which hid has room for
            memset(work->hid, 0, (size_t)call->ffn->padded * sizeof *work->hid);
            for (int64_t i = 0; i < n; i++)
                work->hid[neuron[i]] = h[i];
            has_row = true;
        }
        twp_select_top(active, work->hid, call->ffn->padded, work, bits);
        count_top(call, work, p, row, work->hid, bits);
    }
}

static void count_dense_tiles(const struct twp_ffn_call *call,
                              struct twp_work *work, int64_t row,
                              const uint64_t *pattern)
{
    for (int64_t tile = 0; tile < call->ffn->tiles; tile++) {
        uint8_t part[4];
        for (int i = 0; i < 4; i++)
            part[i] = (uint8_t)__builtin_popcountll(pattern[4 * tile + i]);
        twp_count_tile(call, work, row, tile, part);
    }
}

void twp_count_dense(const struct twp_ffn_call *call, struct twp_work *work,
                     int64_t row, const float *act, const float *h,
                     const uint64_t *pattern)
{
    int64_t padded = call->ffn->padded;
    double lane[16] = {0};
    call->simd->lanes(h, padded, lane);
    twp_count_bad(work, row, NULL, h, padded);
    uint64_t *own = work->bits + padded / 64;
    for (int p = 0; p < call->probes->count; p++) {
        const struct tw_active *active = &call->probes->active[p];
        const uint64_t *bits = own;
        if (active->kind == TW_ACTIVE_GATE)
            bits = pattern;
        else if (active->kind == TW_ACTIVE_HIDDEN)
            call->simd->bits(h, padded, -1, own);
        else if (active->kind == TW_ACTIVE_ABS)
            call->simd->above(h, padded, twp_threshold(active->arg), own);
        else if (active->kind == TW_ACTIVE_GATE_ABS)
            call->simd->above(act, padded, twp_threshold(active->arg), own);
        else
            twp_select_top(active, h, padded, work, own);
        count_top(call, work, p, row, h, bits);
    }
    if (call->is_dense) // else the packing counted them
        count_dense_tiles(call, work, row, pattern);
    work->counts->dense_rows++;
    work->counts->overflow_rows += call->route[row] == TWP_OVERFLOWS;
    twp_count_row(call, work, row, lane);
}

void twp_count_bad(struct twp_work *work, int64_t row, const uint32_t *neuron,
                   const float *h, int64_t n)
{
    struct twp_counts *c = work->counts;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(h[i]))
            continue;
        int32_t at = neuron ? (int32_t)neuron[i] : (int32_t)i;
        if (c->bad_row < 0 || row < c->bad_row) {
            c->bad_row = (int32_t)row;
            c->bad_neuron = at;
        } else if (row == c->bad_row && at < c->bad_neuron) {
            c->bad_neuron = at;
        }
        return;
    }
}

void twp_count_row(const struct twp_ffn_call *call, struct twp_work *work,
                   int64_t row, const double lane[16])
{
    double sum = 0;
    for (int i = 0; i < 16; i++)
        sum += lane[i];
    call->obs->l1[row] = (float)sum;
    work->counts->seen += twp_is_counted(call, row);
}
