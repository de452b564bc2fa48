/* y = x + scale * part, elementwise: a branch that something stands between
 * its last product and the residual stream (a norm, a factor). */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

struct add_job {
    const struct twp_cpu *cpu;
    float *y;
    const float *x, *part;
    int64_t width;
    float scale;
};

TWP_CLONES
static void add_floats(float *y, const float *x, const float *part, int64_t n,
                       float scale)
{
    for (int64_t i = 0; i < n; i += TWP_LANES) {
        twp_v16 v, add;
        twp_load_part(&v, x + i, n - i, 0.0f);
        twp_load_part(&add, part + i, n - i, 0.0f);
        v += add * scale;
        twp_store_part(y + i, &v, n - i);
    }
}

static void add_block(void *arg, int worker, int64_t piece)
{
    const struct add_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    (void)worker;
    for (int64_t row = block->row; row < block->row + block->rows; row++) {
        int64_t at = row * job->width;
        add_floats(job->y + at, job->x + at, job->part + at, job->width,
                   job->scale);
    }
}

enum tw_status twp_cpu_add(void *ctx, void *y, const void *x, const void *part,
                           int64_t width, float scale, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    (void)err;
    assert(cpu->batch && width > 0);
    struct add_job job = {cpu, y, x, part, width, scale};
    tw_threads_run(cpu->threads, add_block, &job, cpu->blocks);
    return TW_OK;
}
