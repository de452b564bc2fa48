/* Batches, matrices and backends for the tests of the operations table. */
#ifndef TESTS_OPS_FIXTURE_H
#define TESTS_OPS_FIXTURE_H

#include <math.h>

#include "kernels/ops.h"
#include "kernels/ops_ref.h"
#include "tests/tw_check.h"

/* Numbers of a test: a fixed sequence, the same in every run. */
uint64_t fix_random(void);
void fix_seed(uint64_t seed);
/* Uniform in (-1, 1). */
float fix_unit(void);
/* count such numbers times scale (tw_free). */
float *fix_floats(int64_t count, float scale);
/* count NaN: what an output holds beforehand (tw_free). */
float *fix_poison(int64_t count);

/* A batch of whole sequences of those lengths, up to the first 0. */
#define FIX_SEQS 6
struct fix_batch {
    struct tw_batch batch;
    int64_t offset[FIX_SEQS + 1], number[FIX_SEQS];
};
void fix_batch_init(struct fix_batch *fix, const int64_t length[FIX_SEQS],
                    int32_t vocab);
void fix_batch_fini(struct fix_batch *fix);
/* One sequence of a batch as a batch of its own; tokens are shared. */
void fix_batch_one(struct fix_batch *one, const struct fix_batch *all,
                   int64_t seq);

/* A matrix of that type with random contents (tw_free its data). */
struct tw_matrix fix_matrix(enum tw_dtype dtype, int64_t rows, int64_t cols,
                            float scale);
void fix_matrix_fini(struct tw_matrix *matrix);

/* A started backend. */
struct fix_backend {
    const struct tw_ops *ops;
    void *ctx;
};
struct fix_backend fix_start(const struct tw_ops *ops, int threads,
                             int64_t keep_bytes, const struct fix_batch *fix);
void fix_end(struct fix_backend *backend);

/* Largest |a - b|; infinite where one is NaN and the other isn't. */
double fix_distance(const float *a, const float *b, int64_t count);

#endif
