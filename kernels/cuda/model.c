/* The slots around the feed-forward layer, as launches of their kernels. */
#include <config.h>

#include "kernels/cuda/context.h"

enum tw_status twp_cuda_matmul(void *ctx, void *y, const void *x,
                               const struct tw_weight *w,
                               const struct tw_matrix *bias,
                               const void *residual, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_product product = {.y = y,
                                  .x = x,
                                  .m = cuda->now->on_device.rows,
                                  .n = w->rows,
                                  .k = w->cols,
                                  .ld = w->rows,
                                  .residual = residual};
    enum tw_status status = twp_weight_data(cuda, w, &product.w, err);
    if (status == TW_OK && bias)
        status = twp_vector_of(cuda, bias, cuda->type, &product.bias, err);
    return status == TW_OK ? twp_multiply(cuda, &product, err) : status;
}

enum tw_status twp_cuda_embed(void *ctx, void *y, const struct tw_weight *w,
                              float scale, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    const struct tw_batch *batch = cuda->now->batch;
    for (int64_t r = 0; r < batch->rows; r++)
        if (batch->token[r] < 0 || batch->token[r] >= w->rows)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %lld is not among the embedding's rows",
                                (long long)batch->token[r]);
    const struct twp_embed_args args = {.type = cuda->type,
                                        .y = y,
                                        .table = w->data,
                                        .width = (int32_t)w->cols,
                                        .scale = scale,
                                        .batch = &cuda->now->on_device};
    return tw_launch_embed(&args, cuda->stream, err);
}

enum tw_status twp_cuda_positions(void *ctx, void *y, const struct tw_weight *w,
                                  int64_t first, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    const struct tw_batch *batch = cuda->now->batch;
    for (int64_t s = 0; s < batch->seqs; s++) {
        int64_t end = first + batch->offset[s + 1] - batch->offset[s];
        if (end > w->rows)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "position %lld has no embedding",
                                (long long)w->rows);
    }
    const struct twp_positions_args args = {.type = cuda->type,
                                            .y = y,
                                            .table = w->data,
                                            .width = (int32_t)w->cols,
                                            .first = first,
                                            .batch = &cuda->now->on_device};
    return tw_launch_positions(&args, cuda->stream, err);
}

enum tw_status twp_cuda_norm(void *ctx, void *y, const void *x, int64_t width,
                             const struct tw_norm *norm, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    const void *weight = NULL, *bias = NULL;
    enum tw_status status =
        twp_vector_of(cuda, &norm->weight, TW_F32, &weight, err);
    if (status == TW_OK)
        status = twp_vector_of(cuda, &norm->bias, TW_F32, &bias, err);
    if (status != TW_OK)
        return status;
    const struct twp_norm_args args = {
        .type = cuda->type,
        .kind = norm->kind,
        .eps = norm->eps,
        .offset = norm->offset,
        .rows = cuda->now->on_device.rows,
        .width = (int32_t)width,
        .groups = norm->groups ? (int32_t)norm->groups : 1,
        .is_per_group = norm->weight.data && norm->weight.rows > 1,
        .weight = weight,
        .bias = bias,
        .y = y,
        .x = x};
    return tw_launch_norm(&args, cuda->stream, err);
}

enum tw_status twp_cuda_rope(void *ctx, void *x, int64_t heads,
                             int64_t head_dim, const struct tw_rope *rope,
                             struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_rope_args args = {.type = cuda->type,
                                 .x = x,
                                 .heads = (int32_t)heads,
                                 .head_dim = (int32_t)head_dim,
                                 .dims = (int32_t)rope->dims,
                                 .scale = rope->scale,
                                 .is_interleaved = rope->is_interleaved,
                                 .batch = &cuda->now->on_device};
    enum tw_status status = twp_floats_of(cuda, rope->inv_freq, rope->dims / 2,
                                          &args.inv_freq, err);
    return status == TW_OK ? tw_launch_rope(&args, cuda->stream, err) : status;
}

enum tw_status twp_cuda_attention(void *ctx, void *y, const void *q,
                                  const void *k, const void *v,
                                  const struct tw_attention *attention,
                                  struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    struct twp_attention_args args = {.type = cuda->type,
                                      .y = y,
                                      .q = q,
                                      .k = k,
                                      .v = v,
                                      .heads = (int32_t)attention->heads,
                                      .kv_heads = (int32_t)attention->kv_heads,
                                      .head_dim = (int32_t)attention->head_dim,
                                      .scale = attention->scale,
                                      .window = attention->window,
                                      .soft_cap = attention->soft_cap,
                                      .alibi_bf16 = attention->alibi_bf16,
                                      .batch = &cuda->now->on_device};
    enum tw_status status = twp_floats_of(cuda, attention->alibi,
                                          attention->heads, &args.alibi, err);
    return status == TW_OK
               ? tw_launch_attention(&cuda->device, &args, cuda->stream, err)
               : status;
}

enum tw_status twp_cuda_add(void *ctx, void *y, const void *x, const void *part,
                            int64_t width, float scale, struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    const struct twp_residual_args args = {
        .type = cuda->type,
        .y = y,
        .x = x,
        .part = part,
        .elements = cuda->now->on_device.rows * width,
        .scale = scale};
    return tw_launch_residual(&args, cuda->stream, err);
}

enum tw_status twp_cuda_act_mul(void *ctx, void *y, const void *gate,
                                const void *up, int64_t width,
                                const struct tw_activation *activation,
                                struct tw_error *err)
{
    struct twp_cuda *cuda = ctx;
    const struct twp_act_mul_args args = {.type = cuda->type,
                                          .y = y,
                                          .gate = gate,
                                          .up = up,
                                          .elements =
                                              cuda->now->on_device.rows * width,
                                          .activation = *activation};
    return tw_launch_act_mul(&args, cuda->stream, err);
}
