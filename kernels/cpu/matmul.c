/* y = x W^T (+ bias) (+ residual): one BLAS call of shape 64 x n x k for each
 * block (R1), whole blocks to the workers (R2). Full-width calls cost 1.3 to
 * 1.55 of one big call (OpenBLAS packs W each time); chunks of n, packed or
 * transposed weights were no faster. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

enum { SLOT_PAD, SLOT_OUT, SLOT_PRODUCT, SLOT_BIAS };

struct matmul_job {
    struct twp_cpu *cpu;
    float *y;
    const float *x, *wide, *bias, *residual;
    int64_t n, k;
};

/* y = (product + bias) + residual; each of the last two may be NULL. */
TWP_CLONES
static void add_row(float *y, const float *product, const float *bias,
                    const float *residual, int64_t n)
{
    for (int64_t i = 0; i < n; i += TWP_LANES) {
        twp_v16 v, add;
        twp_load_part(&v, product + i, n - i, 0.0f);
        if (bias) {
            twp_load_part(&add, bias + i, n - i, 0.0f);
            v += add;
        }
        if (residual) {
            twp_load_part(&add, residual + i, n - i, 0.0f);
            v += add;
        }
        twp_store_part(y + i, &v, n - i);
    }
}

static void matmul_block(void *arg, int worker, int64_t piece)
{
    const struct matmul_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    void **scratch = job->cpu->scratch[worker].memory;
    int64_t n = job->n, k = job->k;
    float *y = job->y + block->row * n;
    /* The residual may be y: then y can't take the product first. */
    float *product = job->residual ? scratch[SLOT_PRODUCT] : y;
    twp_block_product(product, n, job->x + block->row * k, k, block->rows,
                      job->wide, n, k, scratch[SLOT_PAD], scratch[SLOT_OUT]);
    if (!job->bias && !job->residual)
        return;
    const float *residual =
        job->residual ? job->residual + block->row * n : NULL;
    for (int64_t row = 0; row < block->rows; row++)
        add_row(y + row * n, product + row * n, job->bias,
                residual ? residual + row * n : NULL, n);
}

enum tw_status twp_cpu_matmul(void *ctx, void *y, const void *x,
                              const struct tw_weight *w,
                              const struct tw_matrix *bias,
                              const void *residual, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    int64_t n = w->matrix.rows, k = w->matrix.cols;
    size_t block_floats = (size_t)n * TWP_BLOCK * sizeof(float);
    struct matmul_job job = {.cpu = cpu, .y = y, .x = x, .n = n, .k = k,
                             .residual = residual};
    assert(cpu->batch);
    /* The widened copy is a cache inside the weight. */
    enum tw_status status =
        twp_weight_f32(cpu, (struct tw_weight *)w, &job.wide, err);
    if (status == TW_OK)
        status = twp_vector_f32(cpu, bias, SLOT_BIAS, &job.bias, err);
    if (status == TW_OK)
        status = twp_scratch_reserve(
            cpu, SLOT_PAD, (size_t)k * TWP_BLOCK * sizeof(float), err);
    if (status == TW_OK)
        status = twp_scratch_reserve(cpu, SLOT_OUT, block_floats, err);
    if (status == TW_OK && residual)
        status = twp_scratch_reserve(cpu, SLOT_PRODUCT, block_floats, err);
    if (status != TW_OK)
        return status;
    tw_threads_run(cpu->threads, matmul_block, &job, cpu->blocks);
    return TW_OK;
}
