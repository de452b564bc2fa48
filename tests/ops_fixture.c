/* Batches, matrices and backends for the tests of the operations table. */
#include <config.h>

#include "tests/ops_fixture.h"

#include "base/memory.h"

static uint64_t state = 1;

void fix_seed(uint64_t seed)
{
    state = seed * 2 + 1;
}

uint64_t fix_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1dull) >> 20;
}

float fix_unit(void)
{
    return (float)(fix_random() % 2000001) * 1e-6f - 1.0f;
}

float *fix_floats(int64_t count, float scale)
{
    float *out = tw_alloc((size_t)count, sizeof *out);
    ck_assert_ptr_nonnull(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = fix_unit() * scale;
    return out;
}

float *fix_poison(int64_t count)
{
    float *out = tw_alloc((size_t)count, sizeof *out);
    ck_assert_ptr_nonnull(out);
    for (int64_t i = 0; i < count; i++)
        out[i] = NAN;
    return out;
}

void fix_batch_init(struct fix_batch *fix, const int64_t length[FIX_SEQS],
                    int32_t vocab)
{
    *fix = (struct fix_batch){0};
    struct tw_batch *batch = &fix->batch;
    while (batch->seqs < FIX_SEQS && length[batch->seqs] > 0) {
        batch->rows += length[batch->seqs];
        fix->number[batch->seqs] = batch->seqs;
        fix->offset[++batch->seqs] = batch->rows;
    }
    int32_t *token = tw_alloc((size_t)batch->rows, sizeof *token);
    uint8_t *row_class = tw_calloc((size_t)batch->rows, sizeof *row_class);
    ck_assert(token && row_class);
    for (int64_t row = 0; row < batch->rows; row++) {
        token[row] = (int32_t)(fix_random() % (uint64_t)vocab);
        if (fix_random() % 5 == 0)
            row_class[row] = TW_ROW_SPECIAL | TW_ROW_SKIPPED;
    }
    batch->token = token;
    batch->row_class = row_class;
    batch->offset = fix->offset;
    batch->document = batch->start = fix->number;
}

void fix_batch_fini(struct fix_batch *fix)
{
    tw_free((void *)fix->batch.token);
    tw_free((void *)fix->batch.row_class);
}

void fix_batch_one(struct fix_batch *one, const struct fix_batch *all,
                   int64_t seq)
{
    int64_t first = all->offset[seq], end = all->offset[seq + 1];
    *one = (struct fix_batch){.offset = {0, end - first}};
    one->batch = (struct tw_batch){.rows = end - first,
                                   .seqs = 1,
                                   .offset = one->offset,
                                   .document = one->number,
                                   .start = one->number,
                                   .token = all->batch.token + first,
                                   .row_class = all->batch.row_class + first};
}

/* Halves with exponents that floats in (-1, 1) have, and some subnormals. */
static uint16_t random_half(enum tw_dtype dtype, float scale)
{
    float value = fix_unit() * scale;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == TW_BF16)
        return (uint16_t)(bits >> 16);
    int exponent = (int)(bits >> 23 & 0xff) - 127 + 15;
    uint16_t half = (uint16_t)((bits >> 13 & 0x3ff) | (bits >> 16 & 0x8000));
    return exponent > 0 ? (uint16_t)(half | exponent << 10) : half;
}

struct tw_matrix fix_matrix(enum tw_dtype dtype, int64_t rows, int64_t cols,
                            float scale)
{
    struct tw_matrix matrix = {.dtype = dtype, .rows = rows, .cols = cols};
    int64_t count = rows * cols;
    if (dtype == TW_F32) {
        matrix.data = fix_floats(count, scale);
        return matrix;
    }
    uint16_t *data = tw_alloc((size_t)count, sizeof *data);
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < count; i++)
        data[i] = random_half(dtype, scale);
    matrix.data = data;
    return matrix;
}

void fix_matrix_fini(struct tw_matrix *matrix)
{
    tw_free((void *)matrix->data);
}

struct fix_backend fix_start(const struct tw_ops *ops, int threads,
                             int64_t keep_bytes, const struct fix_batch *fix)
{
    struct fix_backend backend = {.ops = ops};
    struct tw_error err = {0};
    struct tw_ops_config config = {.threads = threads,
                                   .keep_bytes = keep_bytes};
    TW_OK_OR_FAIL(ops->init(&config, &backend.ctx, &err), err);
    TW_OK_OR_FAIL(ops->start(backend.ctx, &fix->batch, &err), err);
    return backend;
}

void fix_end(struct fix_backend *backend)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(backend->ops->finish(backend->ctx, &err), err);
    backend->ops->fini(backend->ctx);
}

double fix_distance(const float *a, const float *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        double distance = fabs((double)a[i] - (double)b[i]);
        if (!(distance <= most))
            most = isnan(distance) ? INFINITY : distance;
    }
    return most;
}
