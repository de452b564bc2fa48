/* Reference of what works on one row alone: embed, positions, norm, matmul,
 * rope, add, act_mul. */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include <math.h>

enum tw_status twp_ref_embed(void *ctx, void *y_, const struct tw_weight *w,
                             float scale, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    int64_t width = w->matrix.cols;
    float *y = y_;
    for (int64_t row = 0; row < ref->batch->rows; row++) {
        int64_t token = ref->batch->token[row];
        if (token < 0 || token >= w->matrix.rows)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %lld is not among the embedding's rows",
                                (long long)token);
        for (int64_t i = 0; i < width; i++)
            y[row * width + i] =
                (float)(twp_ref_at(&w->matrix, token, i) * (double)scale);
    }
    return TW_OK;
}

enum tw_status twp_ref_positions(void *ctx, void *y_, const struct tw_weight *w,
                                 int64_t first, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    int64_t width = w->matrix.cols;
    float *y = y_;
    for (int64_t row = 0; row < ref->batch->rows; row++) {
        int64_t at = first + row - twp_ref_first(ref->batch, row);
        if (at >= w->matrix.rows)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "position %lld has no embedding",
                                (long long)at);
        for (int64_t i = 0; i < width; i++)
            y[row * width + i] = (float)((double)y[row * width + i] +
                                         twp_ref_at(&w->matrix, at, i));
    }
    return TW_OK;
}

/* One group: `row` of the weight and the bias is its own or the only one. */
static void norm_group(float *y, const float *x, int64_t width,
                       const struct tw_norm *norm, int64_t row)
{
    double mean = 0, square = 0;
    if (norm->kind == TW_NORM_LAYER) {
        for (int64_t i = 0; i < width; i++)
            mean += (double)x[i];
        mean /= (double)width;
    }
    for (int64_t i = 0; i < width; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean);
    double factor = 1 / sqrt(square / (double)width + (double)norm->eps);
    for (int64_t i = 0; i < width; i++) {
        double weight = 1;
        if (norm->weight.data)
            weight = (double)norm->offset + twp_ref_at(&norm->weight, row, i);
        double value = weight * (((double)x[i] - mean) * factor);
        if (norm->bias.data)
            value += twp_ref_at(&norm->bias, row, i);
        y[i] = (float)value;
    }
}

enum tw_status twp_ref_norm(void *ctx, void *y, const void *x, int64_t width,
                            const struct tw_norm *norm, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    int64_t groups = norm->groups ? norm->groups : 1, part = width / groups;
    bool is_own = norm->weight.data && norm->weight.rows > 1;
    (void)err;
    for (int64_t row = 0; row < ref->batch->rows; row++)
        for (int64_t g = 0; g < groups; g++) {
            int64_t at = row * width + g * part;
            norm_group((float *)y + at, (const float *)x + at, part, norm,
                       is_own ? g : 0);
        }
    return TW_OK;
}

enum tw_status twp_ref_matmul(void *ctx, void *y_, const void *x_,
                              const struct tw_weight *w,
                              const struct tw_matrix *bias,
                              const void *residual_, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    const float *x = x_, *residual = residual_;
    float *y = y_;
    int64_t n = w->matrix.rows, k = w->matrix.cols;
    (void)err;
    for (int64_t row = 0; row < ref->batch->rows; row++)
        for (int64_t i = 0; i < n; i++) {
            double sum = twp_ref_dot(x + row * k, &w->matrix, i);
            if (bias && bias->data)
                sum += twp_ref_at(bias, 0, i);
            if (residual)
                sum += (double)residual[row * n + i];
            y[row * n + i] = (float)sum;
        }
    return TW_OK;
}

/* The angle is a float product, as in Hugging Face: at position 2000 its
 * rounding is 1e-4 of a turn, and models were trained with it. */
static void turn(float *head, int64_t position, const struct tw_rope *rope)
{
    int64_t half = rope->dims / 2;
    int64_t step = rope->is_interleaved ? 2 : 1;
    int64_t mate = rope->is_interleaved ? 1 : half;
    for (int64_t i = 0; i < half; i++) {
        float *pair = head + i * step;
        float angle = (float)position * rope->inv_freq[i];
        double c = cos((double)angle) * (double)rope->scale;
        double s = sin((double)angle) * (double)rope->scale;
        double a = (double)pair[0], b = (double)pair[mate];
        pair[0] = (float)(a * c - b * s);
        pair[mate] = (float)(b * c + a * s);
    }
}

enum tw_status twp_ref_rope(void *ctx, void *x, int64_t heads, int64_t head_dim,
                            const struct tw_rope *rope, struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    (void)err;
    for (int64_t row = 0; row < ref->batch->rows; row++)
        for (int64_t h = 0; h < heads; h++)
            turn((float *)x + (row * heads + h) * head_dim,
                 row - twp_ref_first(ref->batch, row), rope);
    return TW_OK;
}

enum tw_status twp_ref_add(void *ctx, void *y_, const void *x_,
                           const void *part_, int64_t width, float scale,
                           struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    const float *x = x_, *part = part_;
    float *y = y_;
    (void)err;
    for (int64_t i = 0; i < ref->batch->rows * width; i++)
        y[i] = (float)((double)x[i] + (double)scale * (double)part[i]);
    return TW_OK;
}

enum tw_status twp_ref_act_mul(void *ctx, void *y_, const void *gate_,
                               const void *up_, int64_t width,
                               const struct tw_activation *activation,
                               struct tw_error *err)
{
    const struct twp_ref *ref = ctx;
    const float *gate = gate_, *up = up_;
    float *y = y_;
    (void)err;
    for (int64_t i = 0; i < ref->batch->rows * width; i++) {
        double value = tw_activation_apply(activation, (double)gate[i]);
        y[i] = (float)(up ? value * (double)up[i] : value);
    }
    return TW_OK;
}
