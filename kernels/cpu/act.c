/* act_mul: activation functions on rows of floats, by the vector kernels that
 * the feed-forward layer uses as well. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/simd.h"

#define CHUNK 256 /* floats at a time; a multiple of 16, as activate wants */

struct act_job {
    const struct twp_cpu *cpu;
    const struct twp_simd *simd;
    float *y;
    const float *gate, *up;
    int64_t width;
    const struct tw_activation *activation;
};

/* y[count] = act(gate) * up, or act(gate) where up is NULL; y may be either. */
static void activate_row(const struct act_job *job, float *y, const float *gate,
                         const float *up, int64_t count)
{
    _Alignas(64) float part[CHUNK];
    for (int64_t i = 0; i < count; i += CHUNK) {
        int64_t n = count - i < CHUNK ? count - i : CHUNK;
        memcpy(part, gate + i, (size_t)n * sizeof *part);
        memset(part + n, 0, (size_t)(CHUNK - n) * sizeof *part);
        job->simd->activate(job->activation, part, NULL, (n + 15) & ~15);
        if (up)
            for (int64_t k = 0; k < n; k++)
                part[k] *= up[i + k];
        memcpy(y + i, part, (size_t)n * sizeof *part);
    }
}

static void act_block(void *arg, int worker, int64_t piece)
{
    const struct act_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    int64_t first = block->row * job->width;
    (void)worker;
    activate_row(job, job->y + first, job->gate + first,
                 job->up ? job->up + first : NULL, block->rows * job->width);
}

enum tw_status twp_cpu_act_mul(void *ctx, void *y, const void *gate,
                               const void *up, int64_t width,
                               const struct tw_activation *activation,
                               struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    struct act_job job = {cpu, twp_simd_find(), y, gate, up, width, activation};
    (void)err;
    assert(cpu->batch && width > 0);
    tw_threads_run(cpu->threads, act_block, &job, cpu->blocks);
    return TW_OK;
}
