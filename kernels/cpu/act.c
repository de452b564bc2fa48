/* Activation functions on rows of floats, and act_mul. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

#define SQRT_HALF 0.70710678f
#define GELU_TANH_SLOPE 0.79788456f /* sqrt(2 / pi) */
#define GELU_TANH_CUBIC 0.044715f
#define QUICK_GELU_SLOPE 1.702f

/* x / (1 + e^(-slope x)) */
TWP_INLINE void sigmoid_times(twp_v16 *x, float slope)
{
    twp_v16 e = *x * -slope;
    twp_exp(&e);
    *x = *x / (1.0f + e);
}

/* 0 where x <= threshold; NaN stays. */
TWP_INLINE void cut_below(twp_v16 *x, float threshold)
{
    twp_i16 is_above, is_nan;
    twp_is_more(&is_above, x, threshold);
    twp_is_nan(&is_nan, x);
    *x = (twp_v16)((is_above | is_nan) & (twp_i16)*x);
}

TWP_INLINE void gelu_tanh(twp_v16 *x)
{
    twp_v16 t = *x * GELU_TANH_SLOPE * (*x * *x * GELU_TANH_CUBIC + 1.0f);
    twp_tanh(&t);
    *x = *x * 0.5f * (1.0f + t);
}

TWP_INLINE void gelu(twp_v16 *x)
{
    twp_v16 t = *x * SQRT_HALF;
    twp_erf_plus_1(&t);
    *x = *x * 0.5f * t;
}

TWP_INLINE void activate(twp_v16 *x, enum tw_act act, float arg)
{
    switch (act) {
    case TW_ACT_RELU:
        cut_below(x, 0.0f);
        break;
    case TW_ACT_RELU2:
        cut_below(x, 0.0f);
        *x *= *x;
        break;
    case TW_ACT_FATRELU:
        cut_below(x, arg);
        break;
    case TW_ACT_SILU:
        sigmoid_times(x, 1.0f);
        break;
    case TW_ACT_GELU:
        gelu(x);
        break;
    case TW_ACT_GELU_TANH:
        gelu_tanh(x);
        break;
    default:
        assert(act == TW_ACT_QUICK_GELU);
        sigmoid_times(x, QUICK_GELU_SLOPE);
    }
}

TWP_CLONES
static void activate_row(float *y, const float *gate, const float *up,
                         int64_t count, enum tw_act act, float arg)
{
    for (int64_t i = 0; i < count; i += TWP_LANES) {
        twp_v16 g, u;
        twp_load_part(&g, gate + i, count - i, 0.0f);
        activate(&g, act, arg);
        if (up) {
            twp_load_part(&u, up + i, count - i, 0.0f);
            g *= u;
        }
        twp_store_part(y + i, &g, count - i);
    }
}

void twp_activate(float *y, const float *gate, const float *up, int64_t count,
                  const struct tw_activation *activation)
{
    activate_row(y, gate, up, count, activation->act, activation->arg);
}

struct act_job {
    const struct twp_cpu *cpu;
    float *y;
    const float *gate, *up;
    int64_t width;
    const struct tw_activation *activation;
};

static void act_block(void *arg, int worker, int64_t piece)
{
    const struct act_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    int64_t first = block->row * job->width;
    (void)worker;
    twp_activate(job->y + first, job->gate + first,
                 job->up ? job->up + first : NULL, block->rows * job->width,
                 job->activation);
}

enum tw_status twp_cpu_act_mul(void *ctx, void *y, const void *gate,
                               const void *up, int64_t width,
                               const struct tw_activation *activation,
                               struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    struct act_job job = {cpu, y, gate, up, width, activation};
    (void)err;
    assert(cpu->batch && width > 0);
    tw_threads_run(cpu->threads, act_block, &job, cpu->blocks);
    return TW_OK;
}
