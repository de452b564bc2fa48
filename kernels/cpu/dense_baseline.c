/* Three big BLAS calls and one pass between them. FLOPs 6 d_model d_ff a row.
 */
#include <config.h>

#include "kernels/cpu/dense_baseline.h"

#include <assert.h>
#include <cblas.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "kernels/cpu/simd.h"

#define ROWS_A_PIECE 32

struct tw_dense_ffn {
    int64_t d, f, ld; /* ld: f rounded up to 16 */
    int64_t max_rows;
    struct tw_activation activation;
    bool is_up_activated;
    const struct twp_simd *simd;
    struct tw_threads *threads;
    float *gate, *up, *down;                /* gate NULL: plain */
    float *gate_bias, *up_bias, *down_bias; /* NULL: none */
    float *a, *u;                           /* [max_rows][ld] */
    /* of the running call */
    float *y;
    const float *residual;
    int64_t rows;
};

/* The matrix as floats, zeros up to `floats`. NULL data stays NULL. */
static int widen(float **out, const struct tw_matrix *m, int64_t floats)
{
    *out = NULL;
    if (!m->data)
        return 0;
    *out = tw_alloc_aligned((size_t)floats, sizeof **out);
    if (!*out)
        return -1;
    int64_t used = m->rows * m->cols;
    tw_widen(*out, m->data, m->dtype, (size_t)used);
    memset(*out + used, 0, (size_t)(floats - used) * sizeof **out);
    return 0;
}

enum tw_status tw_dense_ffn_create(const struct tw_ffn_desc *desc, int threads,
                                   int64_t max_rows, struct tw_dense_ffn **out,
                                   struct tw_error *err)
{
    assert(threads >= 1 && max_rows >= 1);
    struct tw_dense_ffn *ffn = tw_calloc(1, sizeof *ffn);
    if (!ffn)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    int64_t d = ffn->d = desc->d_model, f = ffn->f = desc->d_ff;
    ffn->ld = (f + 15) / 16 * 16;
    ffn->max_rows = max_rows;
    ffn->activation = desc->activation;
    ffn->is_up_activated = desc->is_up_activated;
    ffn->simd = twp_simd_find();
    size_t room = (size_t)max_rows;
    ffn->a = tw_calloc(room, (size_t)ffn->ld * sizeof(float));
    ffn->u = tw_calloc(room, (size_t)ffn->ld * sizeof(float));
    enum tw_status status = TW_OK;
    if (!ffn->a || !ffn->u || widen(&ffn->gate, &desc->gate, f * d) ||
        widen(&ffn->up, &desc->up, f * d) ||
        widen(&ffn->down, &desc->down, f * d) ||
        widen(&ffn->gate_bias, &desc->gate_bias, ffn->ld) ||
        widen(&ffn->up_bias, &desc->up_bias, ffn->ld) ||
        widen(&ffn->down_bias, &desc->down_bias, d))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status == TW_OK)
        status = tw_threads_create(threads, &ffn->threads, err);
    if (status != TW_OK) {
        tw_dense_ffn_destroy(ffn);
        return status;
    }
    *out = ffn;
    return TW_OK;
}

/* a = act(gate) * up for a few rows, and y as the down call adds to it. */
static void between(void *arg, int worker, int64_t piece)
{
    (void)worker;
    struct tw_dense_ffn *ffn = arg;
    int64_t first = piece * ROWS_A_PIECE, d = ffn->d;
    int64_t last = first + ROWS_A_PIECE;
    for (int64_t r = first; r < last && r < ffn->rows; r++) {
        float *a = ffn->a + r * ffn->ld, *u = ffn->u + r * ffn->ld;
        ffn->simd->activate(&ffn->activation, a,
                            ffn->gate ? ffn->gate_bias : ffn->up_bias, ffn->ld);
        if (ffn->is_up_activated)
            ffn->simd->activate(&ffn->activation, u, ffn->up_bias, ffn->ld);
        if (ffn->gate)
            ffn->simd->multiply(
                a, a, u, ffn->is_up_activated ? NULL : ffn->up_bias, ffn->ld);
        float *y = ffn->y + r * d;
        const float *from = ffn->residual ? ffn->residual + r * d : NULL;
        if (from && from != y)
            memcpy(y, from, (size_t)d * sizeof *y);
        else if (!from)
            memset(y, 0, (size_t)d * sizeof *y);
        for (int64_t i = 0; ffn->down_bias && i < d; i++)
            y[i] += ffn->down_bias[i];
    }
}

static void product(float *c, int64_t ldc, const float *a, int64_t lda,
                    const float *w, int64_t m, int64_t n, int64_t k, float beta)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k,
                1.0f, a, (int)lda, w, (int)k, beta, c, (int)ldc);
}

void tw_dense_ffn_run(struct tw_dense_ffn *ffn, float *y, const float *x,
                      const float *residual, int64_t rows)
{
    assert(rows <= ffn->max_rows);
    int64_t d = ffn->d, f = ffn->f, ld = ffn->ld;
    ffn->y = y;
    ffn->residual = residual;
    ffn->rows = rows;
    openblas_set_num_threads(tw_threads_count(ffn->threads));
    if (ffn->gate) {
        product(ffn->a, ld, x, d, ffn->gate, rows, f, d, 0);
        product(ffn->u, ld, x, d, ffn->up, rows, f, d, 0);
    } else {
        product(ffn->a, ld, x, d, ffn->up, rows, f, d, 0);
    }
    tw_threads_run(ffn->threads, between, ffn,
                   (rows + ROWS_A_PIECE - 1) / ROWS_A_PIECE);
    product(y, d, ffn->a, ld, ffn->down, rows, d, f, 1);
    openblas_set_num_threads(1);
}

void tw_dense_ffn_destroy(struct tw_dense_ffn *ffn)
{
    if (!ffn)
        return;
    tw_threads_destroy(ffn->threads);
    tw_free(ffn->gate);
    tw_free(ffn->up);
    tw_free(ffn->down);
    tw_free(ffn->gate_bias);
    tw_free(ffn->up_bias);
    tw_free(ffn->down_bias);
    tw_free(ffn->a);
    tw_free(ffn->u);
    tw_free(ffn);
}
