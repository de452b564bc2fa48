/* A started batch on the cuda row and on the reference row, whose inputs are
 * the same rounded numbers. Results then differ by one rounding to 16 bits and
 * by fp32 sums in another order. */
#ifndef TESTS_CUDA_PAIR_H
#define TESTS_CUDA_PAIR_H

#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/cuda_internal.h"
#include "tests/ops_fixture.h"

extern const struct tw_ops tw_ops_cuda;

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const int64_t batches[][FIX_SEQS] = {
    {1}, {63}, {5, 64, 186}, {128, 1, 129}, {257}, {1, 1, 1, 63, 65, 124},
};
static const enum tw_dtype types[] = {TW_BF16, TW_F16};

/* Of one rounding to 16 bits, relative. */
static inline double rounding(enum tw_dtype type)
{
    return type == TW_F16 ? 0x1p-11 : 0x1p-8;
}

struct pair {
    struct fix_batch fix;
    void *cuda, *ref;
    enum tw_dtype type;
};

static inline void *open_cuda(enum tw_dtype type)
{
    struct tw_error err = {0};
    void *ctx = NULL;
    TW_OK_OR_FAIL(
        tw_ops_cuda.init(&(struct tw_ops_config){.dtype = type}, &ctx, &err),
        err);
    return ctx;
}

static inline struct pair *pair_start_of(const int64_t length[FIX_SEQS],
                                         int32_t vocab, enum tw_dtype type)
{
    struct tw_error err = {0};
    struct pair *pair = tw_calloc(1, sizeof *pair);
    ck_assert_ptr_nonnull(pair);
    fix_seed((uint64_t)length[0] + 1);
    fix_batch_init(&pair->fix, length, vocab);
    pair->type = type;
    pair->cuda = open_cuda(type);
    TW_OK_OR_FAIL(tw_ops_ref.init(&(struct tw_ops_config){0}, &pair->ref, &err),
                  err);
    TW_OK_OR_FAIL(tw_ops_cuda.start(pair->cuda, &pair->fix.batch, &err), err);
    TW_OK_OR_FAIL(tw_ops_ref.start(pair->ref, &pair->fix.batch, &err), err);
    return pair;
}

/* Looped tests take batch and type from their number. */
#define LOOPS (COUNT(batches) * COUNT(types))
static inline struct pair *pair_start(int number, int32_t vocab)
{
    return pair_start_of(batches[number / COUNT(types)], vocab,
                         types[number % COUNT(types)]);
}

static inline void pair_end(struct pair *pair)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_ops_cuda.finish(pair->cuda, &err), err);
    TW_OK_OR_FAIL(tw_ops_ref.finish(pair->ref, &err), err);
    tw_ops_cuda.fini(pair->cuda);
    tw_ops_ref.fini(pair->ref);
    fix_batch_fini(&pair->fix);
    tw_free(pair);
}

/* Vectors are known by their address: what was there before is forgotten. */
static inline void pair_forget(struct pair *pair)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(tw_ops_cuda.finish(pair->cuda, &err), err);
    tw_ops_cuda.trim(pair->cuda);
    TW_OK_OR_FAIL(tw_ops_cuda.start(pair->cuda, &pair->fix.batch, &err), err);
}

/* Numbers that the type holds (tw_free). */
static inline float *pair_numbers(const struct pair *pair, int64_t count,
                                  float scale)
{
    float *x = fix_floats(count, scale);
    uint16_t *narrow = tw_alloc((size_t)count, sizeof *narrow);
    ck_assert_ptr_nonnull(narrow);
    twp_narrow(narrow, x, pair->type, (size_t)count);
    tw_widen(x, narrow, pair->type, (size_t)count);
    tw_free(narrow);
    return x;
}

/* A matrix of numbers that the type holds. */
static inline struct tw_matrix
pair_matrix(const struct pair *pair, int64_t rows, int64_t cols, float scale)
{
    return (struct tw_matrix){.data = pair_numbers(pair, rows * cols, scale),
                              .dtype = TW_F32,
                              .rows = rows,
                              .cols = cols};
}

static inline void *pair_device(const struct pair *pair, const float *x,
                                int64_t count)
{
    struct tw_error err = {0};
    void *buffer = NULL;
    TW_OK_OR_FAIL(tw_ops_cuda.alloc(pair->cuda, count, &buffer, &err), err);
    TW_OK_OR_FAIL(tw_ops_cuda.upload(pair->cuda, buffer, x, count, &err), err);
    return buffer;
}

/* A buffer of NaN. */
static inline void *pair_output(const struct pair *pair, int64_t count)
{
    float *poison = fix_poison(count);
    void *buffer = pair_device(pair, poison, count);
    tw_free(poison);
    return buffer;
}

/* The buffer's floats (tw_free); the buffer is freed. */
static inline float *pair_fetched(const struct pair *pair, void *buffer,
                                  int64_t count)
{
    struct tw_error err = {0};
    float *x = fix_poison(count);
    TW_OK_OR_FAIL(tw_ops_cuda.download(pair->cuda, x, buffer, count, &err),
                  err);
    tw_ops_cuda.free(pair->cuda, buffer);
    return x;
}

/* Within one rounding and `slack`; frees `want` and the buffer. */
static inline void pair_same(const struct pair *pair, void *buffer, float *want,
                             int64_t count, double slack)
{
    float *got = pair_fetched(pair, buffer, count);
    double relative = 1.01 * rounding(pair->type);
    if (pair->type == TW_F16)
        slack += 0x1p-24; /* its subnormal numbers */
    for (int64_t i = 0; i < count; i++) {
        double far = fabs((double)got[i] - (double)want[i]);
        ck_assert_msg(far <= relative * fabs((double)want[i]) + slack,
                      "number %lld of %lld: %g, not %g", (long long)i,
                      (long long)count, (double)got[i], (double)want[i]);
    }
    tw_free(got);
    tw_free(want);
}

/* Runs a slot on both rows; the calls use y and err. */
#define BOTH(pair, count, slack, cuda_call, ref_call)                          \
    do {                                                                       \
        err = (struct tw_error){0};                                            \
        void *y = pair_output(pair, count);                                    \
        TW_OK_OR_FAIL(cuda_call, err);                                         \
        void *device_y_ = y;                                                   \
        y = fix_poison(count);                                                 \
        TW_OK_OR_FAIL(ref_call, err);                                          \
        pair_same(pair, device_y_, y, count, slack);                           \
    } while (0)

#define CUDA tw_ops_cuda
#define REF  tw_ops_ref

#endif
