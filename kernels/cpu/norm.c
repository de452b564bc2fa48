/* RMSNorm, y = w (x / sqrt(mean x^2 + eps)), and LayerNorm,
 * y = w ((x - mean) / sqrt(var + eps)) + b, over a row or over each of its
 * groups. Sums in double, in eight lanes from the group's first column on:
 * their order depends on its width alone. */
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
    int64_t groups, width; /* width: of a group */
    int64_t step;          /* floats from a group's weight to the next's */
    double eps;
    float offset;
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
static void norm_group(float *y, const float *x, const float *weight,
                       const float *bias, const struct norm_job *job)
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
        v = (v - centre) * factor;
        if (weight) {
            twp_load_part(&w, weight + i, width - i, 0.0f);
            v = (w + job->offset) * v;
        }
        if (bias) {
            twp_load_part(&b, bias + i, width - i, 0.0f);
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
    for (int64_t i = 0; i < block->rows * job->groups; i++) {
        int64_t at = (block->row * job->groups + i) * job->width;
        int64_t own = i % job->groups * job->step;
        norm_group(job->y + at, job->x + at,
                   job->weight ? job->weight + own : NULL,
                   job->bias ? job->bias + own : NULL, job);
    }
}

enum tw_status twp_cpu_norm(void *ctx, void *y, const void *x, int64_t width,
                            const struct tw_norm *norm, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    int64_t groups = norm->groups ? norm->groups : 1;
    const struct tw_matrix *weight = &norm->weight;
    assert(cpu->batch && norm->kind != TW_NORM_NONE && width % groups == 0);
    assert(!weight->data || (weight->cols == width / groups &&
                             (weight->rows == 1 || weight->rows == groups)));
    struct norm_job job = {
        .cpu = cpu,
        .y = y,
        .x = x,
        .groups = groups,
        .width = width / groups,
        .step = weight->data && weight->rows > 1 ? weight->cols : 0,
        .eps = (double)norm->eps,
        .offset = norm->offset,
        .kind = norm->kind};
    enum tw_status status =
        twp_vector_f32(cpu, &norm->weight, SLOT_WEIGHT, &job.weight, err);
    if (status == TW_OK)
        status = twp_vector_f32(cpu, &norm->bias, SLOT_BIAS, &job.bias, err);
    if (status != TW_OK)
        return status;
    tw_threads_run(cpu->threads, norm_block, &job, cpu->blocks);
    return TW_OK;
}
