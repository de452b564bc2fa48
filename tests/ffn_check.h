/* All that a call of the feed-forward layer gave, against the reference of
 * ffn_case.h: counts and l1 equal, outputs close. */
#ifndef TESTS_FFN_CHECK_H
#define TESTS_FFN_CHECK_H

#include "tests/ffn_case.h"

static const int tile_width[TW_TILE_WIDTHS] = {64, 128, 256};

static inline void reference_init(struct ffn_case *c, struct reference *ref)
{
    ref->a = own(c, (size_t)c->f, sizeof *ref->a);
    ref->h = own(c, (size_t)c->f, sizeof *ref->h);
    ref->pattern = own(c, (size_t)c->f, sizeof *ref->pattern);
    ref->is_active = own(c, (size_t)c->f, sizeof *ref->is_active);
}

static inline void add_tiles(const struct ffn_case *c, const bool *pattern,
                             struct tw_layer_obs *want)
{
    for (int t = 0; t < TW_TILE_WIDTHS; t++)
        for (int64_t from = 0; from < c->f; from += tile_width[t]) {
            int count = 0;
            for (int64_t n = from; n < from + tile_width[t] && n < c->f; n++)
                count += pattern[n];
            want->tiles[t][count]++;
        }
}

static inline void add_magnitudes(const struct ffn_case *c,
                                  const struct reference *ref,
                                  struct tw_layer_obs *want)
{
    for (int64_t n = 0; n < c->f; n++) {
        float size = fabsf(ref->h[n]);
        if (size != 0) {
            int bin = ilogbf(size) + TW_MAGNITUDE_BIAS;
            want->magnitude[bin < 0 ? 0 : bin > 63 ? 63 : bin]++;
        }
        if (!ref->is_active[n])
            continue;
        want->abs_sum[n] += llrint((double)size * 1048576.0);
        want->abs_max[n] = fmaxf(want->abs_max[n], size);
    }
}

static inline void add_row(const struct ffn_case *c, int64_t r,
                           const struct reference *ref,
                           struct tw_layer_obs *want)
{
    bool is_skipped = c->row_class[r] & TW_ROW_SKIPPED;
    double l1 = 0;
    for (int64_t n = 0; n < c->f; n++)
        l1 += fabs((double)ref->h[n]);
    want->l1[r] = (float)l1;
    for (int p = 0; p < c->probes.count; p++) {
        reference_active(&c->active[p], ref->a, ref->h, ref->pattern, c->f,
                         ref->is_active);
        for (int64_t n = 0; n < c->f; n++) {
            int64_t at = p * c->f + n;
            want->nnz[p * c->rows + r] += ref->is_active[n];
            if (is_skipped || !ref->is_active[n])
                continue;
            want->fired[at]++;
            if (want->first[at] == UINT32_MAX)
                want->first[at] = (uint32_t)r;
            want->last[at] = (uint32_t)r;
        }
        if (p == 0 && !is_skipped)
            add_magnitudes(c, ref, want);
    }
    if (is_skipped)
        return;
    want->seen[0]++;
    add_tiles(c, ref->pattern, want);
}

/* The row's active neurons of the first probe, which add_row left last but for
 * the other probes: worked out again. */
static inline void check_set(const struct ffn_case *c, int64_t r,
                             const struct reference *ref)
{
    int64_t at = c->obs.set_start[r];
    reference_active(&c->active[0], ref->a, ref->h, ref->pattern, c->f,
                     ref->is_active);
    for (int64_t n = 0; n < c->f; n++) {
        if (!ref->is_active[n])
            continue;
        ck_assert_uint_eq(c->obs.set[at], n);
        ck_assert(c->obs.set_value[at] == ref->h[n]);
        at++;
    }
    ck_assert_int_eq(at, c->obs.set_start[r + 1]);
}

static inline void check_y(const struct ffn_case *c, int64_t r, const float *h)
{
    for (int64_t i = 0; i < c->d; i++) {
        double sum = (double)c->residual[r * c->d + i], size = fabs(sum) + 1;
        for (int64_t n = 0; n < c->f; n++) {
            double term = (double)h[n] * (double)c->down[i * c->f + n];
            sum += term;
            size += fabs(term);
        }
        if (c->desc.down_bias.data)
            sum += (double)c->down_bias[i];
        double got = (double)c->y[r * c->d + i];
        ck_assert_msg(fabs(got - sum) <= size * 2e-6,
                      "row %d column %d: %.9g, not %.9g", (int)r, (int)i, got,
                      sum);
    }
}

#define SAME(what, count)                                                      \
    ck_assert_msg(memcmp(c->obs.what, want.what,                               \
                         (size_t)(count) * sizeof *want.what) == 0,            \
                  #what " differs from the reference")

/* Everything the call gave, against the reference. */
static inline void check_all(struct ffn_case *c)
{
    struct tw_layer_obs want = {0};
    struct reference ref;
    int64_t p = c->probes.count;
    reference_init(c, &ref);
    TW_OK_OR_FAIL(
        tw_layer_obs_init(&want, c->rows, c->f, (int)p, 1, 1, &c->err), c->err);
    tw_layer_obs_reset(&want, c->rows);
    for (int64_t r = 0; r < c->rows; r++) {
        reference_row(c, r, &ref);
        add_row(c, r, &ref, &want);
        check_set(c, r, &ref);
        if (r % 16 < 2 || r + 1 == c->rows || c->f < 512)
            check_y(c, r, ref.h);
    }
    SAME(nnz, p * c->rows);
    SAME(l1, c->rows);
    SAME(fired, p * c->f);
    SAME(first, p * c->f);
    SAME(last, p * c->f);
    SAME(seen, 1);
    SAME(tiles[0], 65);
    SAME(tiles[1], 129);
    SAME(tiles[2], 257);
    SAME(magnitude, TW_MAGNITUDE_BINS);
    SAME(abs_sum, c->f);
    SAME(abs_max, c->f);
    ck_assert_int_eq(c->obs.bad_row, -1);
    tw_layer_obs_fini(&want);
}

#endif
