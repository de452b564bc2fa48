/* The reference row of the operations table: life, buffers, weights. The
 * formulas are in ops_ref_*.c. Buffers are plain floats. */
#include <config.h>

#include "kernels/ops_ref_internal.h"

#include <string.h>

#include "base/memory.h"

double twp_ref_at(const struct tw_matrix *matrix, int64_t row, int64_t col)
{
    const char *data = matrix->data;
    int64_t at = row * matrix->cols + col;
    if (matrix->dtype == TW_F32) {
        float value;
        memcpy(&value, data + 4 * at, sizeof value);
        return (double)value;
    }
    uint16_t bits;
    memcpy(&bits, data + 2 * at, sizeof bits);
    return (double)(matrix->dtype == TW_BF16 ? tw_bf16_to_f32(bits)
                                             : tw_f16_to_f32(bits));
}

double twp_ref_dot(const float *x, const struct tw_matrix *matrix, int64_t row)
{
    double sum = 0;
    for (int64_t i = 0; i < matrix->cols; i++)
        sum += (double)x[i] * twp_ref_at(matrix, row, i);
    return sum;
}

int64_t twp_ref_first(const struct tw_batch *batch, int64_t row)
{
    int64_t seq = 0;
    while (batch->offset[seq + 1] <= row)
        seq++;
    return batch->offset[seq];
}

int64_t twp_ref_end(const struct tw_batch *batch, int64_t row)
{
    int64_t seq = 0;
    while (batch->offset[seq + 1] <= row)
        seq++;
    return batch->offset[seq + 1];
}

static enum tw_status probe(struct tw_error *err)
{
    (void)err;
    return TW_OK;
}

static enum tw_status init(const struct tw_ops_config *config, void **ctx,
                           struct tw_error *err)
{
    (void)config;
    struct twp_ref *ref = tw_calloc(1, sizeof *ref);
    if (!ref)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    *ctx = ref;
    return TW_OK;
}

static void fini(void *ctx)
{
    struct twp_ref *ref = ctx;
    if (ref)
        twp_marks_fini(&ref->marks);
    tw_free(ref);
}

static const char *device(void *ctx)
{
    (void)ctx;
    return "ref: double sums";
}

static enum tw_status alloc(void *ctx, int64_t elements, void **buffer,
                            struct tw_error *err)
{
    (void)ctx;
    void *memory = tw_alloc((size_t)elements, sizeof(float));
    if (!memory)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    *buffer = memory;
    return TW_OK;
}

static void free_buffer(void *ctx, void *buffer)
{
    (void)ctx;
    tw_free(buffer);
}

static enum tw_status upload(void *ctx, void *buffer, const float *host,
                             int64_t elements, struct tw_error *err)
{
    (void)ctx, (void)err;
    memcpy(buffer, host, (size_t)elements * sizeof *host);
    return TW_OK;
}

static enum tw_status download(void *ctx, float *host, const void *buffer,
                               int64_t elements, struct tw_error *err)
{
    (void)ctx, (void)err;
    memcpy(host, buffer, (size_t)elements * sizeof *host);
    return TW_OK;
}

static enum tw_status weight_load(void *ctx, const struct tw_matrix *matrix,
                                  struct tw_weight **weight,
                                  struct tw_error *err)
{
    (void)ctx;
    struct tw_weight *loaded = tw_calloc(1, sizeof *loaded);
    if (!loaded)
        return tw_error_set(err, TW_ERR_NOMEM, "ref: out of memory");
    loaded->matrix = *matrix;
    *weight = loaded;
    return TW_OK;
}

static void weight_free(void *ctx, struct tw_weight *weight)
{
    (void)ctx;
    tw_free(weight);
}

static enum tw_status start(void *ctx, const struct tw_batch *batch,
                            struct tw_error *err)
{
    struct twp_ref *ref = ctx;
    (void)err;
    ref->batch = batch;
    return TW_OK;
}

static enum tw_status finish(void *ctx, struct tw_error *err)
{
    struct twp_ref *ref = ctx;
    (void)err;
    ref->batch = NULL;
    return TW_OK;
}

static enum tw_status mark(void *ctx, int index, struct tw_error *err)
{
    return twp_marks_put(&((struct twp_ref *)ctx)->marks, index, err);
}

static enum tw_status mark_ns(void *ctx, int from, int to, double *ns,
                              struct tw_error *err)
{
    return twp_marks_ns(&((struct twp_ref *)ctx)->marks, from, to, ns, err);
}

static void layer_end(void *ctx)
{
    (void)ctx;
}

const struct tw_ops tw_ops_ref = {
    .name = "ref",
    .probe = probe,
    .init = init,
    .fini = fini,
    .device = device,
    .compute_dtype = "float64",
    .alloc = alloc,
    .free = free_buffer,
    .upload = upload,
    .download = download,
    .weight_load = weight_load,
    .weight_free = weight_free,
    .ffn_load = twp_ref_ffn_load,
    .ffn_free = twp_ref_ffn_free,
    .start = start,
    .finish = finish,
    .mark = mark,
    .mark_ns = mark_ns,
    .layer_end = layer_end,
    .embed = twp_ref_embed,
    .positions = twp_ref_positions,
    .norm = twp_ref_norm,
    .matmul = twp_ref_matmul,
    .rope = twp_ref_rope,
    .attention = twp_ref_attention,
    .add = twp_ref_add,
    .act_mul = twp_ref_act_mul,
    .ffn = twp_ref_ffn,
    .head_nll = twp_ref_head_nll,
};
