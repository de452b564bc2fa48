/* Reference feed-forward layer. Sums are double and rounded to float where a
 * backend would hold them (gate, up, act(gate), h), so that given equal gate
 * values the counts of all backends are equal:
 *
 *     gated: a = act(x Wg^T + bg), u = x Wu^T + bu, or with is_up_activated
 *     act of that, h = a u
 *     plain: a = h = act(x Wu^T + bu)
 *     pattern: a != 0 (NaN is, -0 isn't); with `apply`, h = 0 where that
 *     definition isn't active, and the pattern is where it is
 *     y = residual + h Wd^T + bd */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include "base/memory.h"

struct tw_ffn {
    struct tw_ffn_desc desc;
};

struct ffn_row {
    float *a, *h;
    bool *pattern, *is_active;
};

enum tw_status twp_ref_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                struct tw_ffn **ffn, struct tw_error *err)
{
    (void)ctx;
    struct tw_ffn *loaded = tw_calloc(1, sizeof *loaded);
    if (!loaded)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    loaded->desc = *desc;
    *ffn = loaded;
    return TW_OK;
}

void twp_ref_ffn_free(void *ctx, struct tw_ffn *ffn)
{
    (void)ctx;
    tw_free(ffn);
}

static void ffn_row_fini(struct ffn_row *row)
{
    tw_free(row->a);
    tw_free(row->h);
    tw_free(row->pattern);
    tw_free(row->is_active);
}

static enum tw_status ffn_row_init(struct ffn_row *row, int64_t width,
                                   struct tw_error *err)
{
    size_t n = (size_t)width;
    *row = (struct ffn_row){.a = tw_alloc(n, sizeof *row->a),
                            .h = tw_alloc(n, sizeof *row->h),
                            .pattern = tw_alloc(n, sizeof *row->pattern),
                            .is_active = tw_alloc(n, sizeof *row->is_active)};
    if (row->a && row->h && row->pattern && row->is_active)
        return TW_OK;
    ffn_row_fini(row);
    return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
}

static float project(const float *x, const struct tw_matrix *w,
                     const struct tw_matrix *bias, int64_t n)
{
    double sum = twp_ref_dot(x, w, n);
    if (bias->data)
        sum += twp_ref_at(bias, 0, n);
    return (float)sum;
}

static void hidden_row(const struct ffn_row *row, const float *x,
                       const struct tw_ffn_desc *desc)
{
    bool is_gated = desc->gate.data != NULL;
    for (int64_t n = 0; n < desc->d_ff; n++) {
        float up = project(x, &desc->up, &desc->up_bias, n);
        float in = is_gated ? project(x, &desc->gate, &desc->gate_bias, n) : up;
        if (desc->is_up_activated)
            up = (float)tw_activation_apply(&desc->activation, (double)up);
        row->a[n] = (float)tw_activation_apply(&desc->activation, (double)in);
        row->pattern[n] = row->a[n] != 0;
        row->h[n] = is_gated ? row->a[n] * up : row->a[n];
    }
    if (!desc->apply)
        return;
    twp_ref_active(desc->apply, row->a, row->h, row->pattern, desc->d_ff,
                   row->is_active);
    for (int64_t n = 0; n < desc->d_ff; n++) {
        row->pattern[n] = row->is_active[n];
        if (!row->is_active[n])
            row->h[n] = 0;
    }
}

static void down_row(float *y, const float *residual, const float *h,
                     const struct tw_ffn_desc *desc)
{
    for (int64_t i = 0; i < desc->d_model; i++) {
        double sum = twp_ref_dot(h, &desc->down, i);
        if (desc->down_bias.data)
            sum += twp_ref_at(&desc->down_bias, 0, i);
        if (residual)
            sum += (double)residual[i];
        y[i] = (float)sum;
    }
}

enum tw_status twp_ref_ffn(void *ctx, void *y, const void *x,
                           const void *residual, struct tw_ffn *ffn,
                           const struct tw_probes *probes,
                           struct tw_layer_obs *obs, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    const struct tw_ffn_desc *desc = &ffn->desc;
    struct ffn_row row;
    enum tw_status status = ffn_row_init(&row, desc->d_ff, err);
    if (status != TW_OK)
        return status;
    for (int64_t r = 0; r < ref->batch->rows && status == TW_OK; r++) {
        int64_t at = r * desc->d_model;
        hidden_row(&row, (const float *)x + at, desc);
        struct twp_ref_row counted = {.row = r,
                                      .width = desc->d_ff,
                                      .a = row.a,
                                      .h = row.h,
                                      .pattern = row.pattern,
                                      .is_active = row.is_active,
                                      .row_class = ref->batch->row_class[r]};
        if (obs)
            twp_ref_count(&counted, probes, obs);
        if (obs && obs->set_start)
            status = twp_ref_set(&counted, &probes->active[0], obs, err);
        down_row((float *)y + at,
                 residual ? (const float *)residual + at : NULL, row.h, desc);
    }
    ffn_row_fini(&row);
    return status;
}
