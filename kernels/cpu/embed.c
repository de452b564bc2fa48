/* Embedding rows, widened from where they lie: the matrix is never copied. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>

struct embed_job {
    const struct twp_cpu *cpu;
    float *y;
    const struct tw_matrix *matrix;
    float scale;
};

static void embed_block(void *arg, int worker, int64_t piece)
{
    const struct embed_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    int64_t width = job->matrix->cols;
    size_t row_bytes = (size_t)width * tw_dtype_size(job->matrix->dtype);
    (void)worker;
    for (int64_t row = block->row; row < block->row + block->rows; row++) {
        size_t token = (size_t)job->cpu->batch->token[row];
        float *y = job->y + row * width;
        twp_widen(y, (const char *)job->matrix->data + token * row_bytes,
                  job->matrix->dtype, width);
        for (int64_t i = 0; i < width; i++)
            y[i] *= job->scale;
    }
}

enum tw_status twp_cpu_embed(void *ctx, void *y, const struct tw_weight *w,
                             float scale, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    const struct tw_batch *batch = cpu->batch;
    assert(batch);
    for (int64_t row = 0; row < batch->rows; row++)
        if (batch->token[row] < 0 || batch->token[row] >= w->matrix.rows)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %ld is not among the embedding's "
                                "%lld rows",
                                (long)batch->token[row],
                                (long long)w->matrix.rows);
    struct embed_job job = {cpu, y, &w->matrix, scale};
    tw_threads_run(cpu->threads, embed_block, &job, cpu->blocks);
    return TW_OK;
}
