/* RMSNorm, y = w (x / sqrt(mean x^2 + eps)), and LayerNorm,
 * y = w ((x - mean) / sqrt(var + eps)) + b. Sums in double, in eight lanes
 * from the row's first column on: their order depends on the width alone. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

enum { SLOT_WEIGHT, SLOT_BIAS };

struct norm_job {
    const struct twp_cpu *cpu;
    float *y;
    const float *x, *weight, *bias;
    int64_t width;
    double eps;
    enum tw_norm_kind kind;
};

/* sum (x - centre)^power, power 1 or 2. */
TWP_INLINE double sum_powers(const float *x, int64_t width, float centre,
                             int power)
{
    twp_d8 sum = {0};
    for (int64_t i = 0; i < width; i += TWP_LANES) {
        twp_v16 v;
        twp_load_part(&v, x + i, width - i, centre);
        twp_v8 half[2];
        v -= centre;
        memcpy(half, &v, sizeof half);
        for (int h = 0; h < 2; h++) {
            twp_d8 wide = __builtin_convertvector(half[h], twp_d8);
            sum += power == 2 ? wide * wide : wide;
        }
    }
    return twp_sum_wide(&sum);
}

TWP_CLONES
static void norm_row(float *y, const float *x, const struct norm_job *job)
{
    int64_t width = job->width;
    float centre = 0.0f;
    if (job->kind == TW_NORM_LAYER)
        centre = (float)(sum_powers(x, width, 0.0f, 1) / (double)width);
    double square = sum_powers(x, width, centre, 2) / (double)width;
    float factor = (float)(1.0 / sqrt(square + job->eps));
    for (int64_t i = 0; i < width; i += TWP_LANES) {
        twp_v16 v, w, b;
        twp_load_part(&v, x + i, width - i, 0.0f);
        twp_load_part(&w, job->weight + i, width - i, 0.0f);
        v = w * ((v - centre) * factor);
        if (job->bias) {
            twp_load_part(&b, job->bias + i, width - i, 0.0f);
            v += b;
        }
        twp_store_part(y + i, &v, width - i);
    }
}

static void norm_block(void *arg, int worker, int64_t piece)
{
    const struct norm_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    (void)worker;
    for (int64_t row = block->row; row < block->row + block->rows; row++)
        norm_row(job->y + row * job->width, job->x + row * job->width, job);
}

enum tw_status twp_cpu_norm(void *ctx, void *y, const void *x, int64_t width,
                            const struct tw_norm *norm, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    assert(cpu->batch && norm->weight.data);
    assert(norm->weight.rows * norm->weight.cols == width);
    struct norm_job job = {.cpu = cpu, .y = y, .x = x, .width = width,
                           .eps = (double)norm->eps, .kind = norm->kind};
    enum tw_status status =
        twp_vector_f32(cpu, &norm->weight, SLOT_WEIGHT, &job.weight, err);
    if (status == TW_OK)
        status = twp_vector_f32(cpu, &norm->bias, SLOT_BIAS, &job.bias, err);
    if (status != TW_OK)
        return status;
    tw_threads_run(cpu->threads, norm_block, &job, cpu->blocks);
    return TW_OK;
}
