/* Embedding rows, of tokens and of positions, widened from where they lie: the
 * matrix is never copied. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

enum { SLOT_ROW };

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

struct positions_job {
    const struct twp_cpu *cpu;
    float *y;
    const struct tw_matrix *matrix;
    int64_t first;
};

TWP_CLONES
static void add_row(float *y, const float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i += TWP_LANES) {
        twp_v16 v, add;
        twp_load_part(&v, y + i, n - i, 0.0f);
        twp_load_part(&add, row + i, n - i, 0.0f);
        v += add;
        twp_store_part(y + i, &v, n - i);
    }
}

static void positions_block(void *arg, int worker, int64_t piece)
{
    const struct positions_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    int64_t width = job->matrix->cols;
    size_t row_bytes = (size_t)width * tw_dtype_size(job->matrix->dtype);
    float *wide = job->cpu->scratch[worker].memory[SLOT_ROW];
    for (int64_t i = 0; i < block->rows; i++) {
        size_t at = (size_t)(job->first + block->position + i);
        twp_widen(wide, (const char *)job->matrix->data + at * row_bytes,
                  job->matrix->dtype, width);
        add_row(job->y + (block->row + i) * width, wide, width);
    }
}

enum tw_status twp_cpu_positions(void *ctx, void *y, const struct tw_weight *w,
                                 int64_t first, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    const struct tw_matrix *m = &w->matrix;
    int64_t past = first + twp_longest_sequence(cpu);
    assert(cpu->batch && first >= 0);
    if (past > m->rows)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "position %lld has no embedding: there are %lld",
                            (long long)(past - 1), (long long)m->rows);
    enum tw_status status = twp_scratch_reserve(
        cpu, SLOT_ROW, (size_t)m->cols * sizeof(float), err);
    if (status != TW_OK)
        return status;
    struct positions_job job = {cpu, y, m, first};
    tw_threads_run(cpu->threads, positions_block, &job, cpu->blocks);
    return TW_OK;
}
