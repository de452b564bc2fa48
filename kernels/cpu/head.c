/* The loss head: logits in chunks of CHUNK vocabulary entries, of which only
 * one is in memory a worker (and only one widened, if the whole head doesn't
 * fit the budget); each row keeps a running maximum and a double sum.
 *
 *     nll = log(sum e^(z - max)) + max - z[next token] */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

#define CHUNK 2048 /* 64 rows of logits: 512 KiB */

enum { SLOT_PAD, SLOT_OUT, SLOT_LOGITS, SLOT_BIAS, SLOT_ROWS };

struct row_sum {
    double sum; /* of e^(z - max) */
    float max, target;
};

struct head_job {
    struct twp_cpu *cpu;
    const float *x, *wide, *bias; /* wide: this chunk's rows of W */
    const struct tw_head *head;
    struct row_sum *row_sum; /* [rows]; NULL: no losses wanted */
    int64_t vocab, width, first, count; /* the chunk: [first, first + count) */
};

/* z = scale z + bias, then the soft cap, in place. Returns the maximum. */
TWP_CLONES
static float finish_logits(float *z, const float *bias, int64_t count,
                           float scale, float soft_cap)
{
    twp_v16 zero = {0}, largest = zero - INFINITY;
    for (int64_t i = 0; i < count; i += TWP_LANES) {
        twp_v16 v, add;
        twp_load_part(&v, z + i, count - i, -INFINITY);
        v *= scale;
        if (bias) {
            twp_load_part(&add, bias + i, count - i, 0.0f);
            v += add;
        }
        if (soft_cap > 0) {
            v = v / soft_cap;
            twp_tanh(&v);
            v = v * soft_cap;
        }
        twp_store_part(z + i, &v, count - i);
        twp_load_part(&v, z + i, count - i, -INFINITY);
        twp_max(&largest, &v);
    }
    return twp_max_lanes(&largest);
}

TWP_CLONES
static double sum_exp(const float *z, int64_t count, float max)
{
    twp_d8 sum = {0};
    for (int64_t i = 0; i < count; i += TWP_LANES) {
        twp_v16 v;
        twp_load_part(&v, z + i, count - i, -INFINITY);
        v -= max;
        twp_exp(&v);
        twp_add_wide(&sum, &v);
    }
    return twp_sum_wide(&sum);
}

/* The row's target, -1 on its sequence's last row. */
static int64_t target_of(const struct twp_cpu *cpu,
                         const struct twp_block *block, int64_t row)
{
    if (row + 1 >= cpu->batch->offset[block->seq + 1])
        return -1;
    return cpu->batch->token[row + 1];
}

static void add_chunk(const struct head_job *job, const struct twp_block *block,
                      int64_t row, const float *z, float largest)
{
    struct row_sum *state = &job->row_sum[row];
    int64_t target = target_of(job->cpu, block, row) - job->first;
    if (target >= 0 && target < job->count)
        state->target = z[target];
    float max = state->max > largest ? state->max : largest;
    if (state->max < max)
        state->sum *= exp((double)state->max - (double)max);
    state->sum += sum_exp(z, job->count, max);
    state->max = max;
}

static void copy_logits(const struct head_job *job, int64_t row, const float *z)
{
    const struct tw_head *head = job->head;
    for (int64_t i = 0; i < head->logit_rows; i++)
        if (head->logit_row[i] == row)
            memcpy(head->logits + i * job->vocab + job->first, z,
                   (size_t)job->count * sizeof *z);
}

static bool is_wanted(const struct head_job *job, const struct twp_block *block)
{
    if (job->row_sum)
        return true;
    for (int64_t i = 0; i < job->head->logit_rows; i++) {
        int64_t row = job->head->logit_row[i] - block->row;
        if (row >= 0 && row < block->rows)
            return true;
    }
    return false;
}

static void head_block(void *arg, int worker, int64_t piece)
{
    const struct head_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    void **scratch = job->cpu->scratch[worker].memory;
    float *logits = scratch[SLOT_LOGITS];
    if (!is_wanted(job, block))
        return;
    twp_block_product(logits, job->count, job->x + block->row * job->width,
                      job->width, block->rows, job->wide, job->count,
                      job->width, scratch[SLOT_PAD], scratch[SLOT_OUT]);
    for (int64_t i = 0; i < block->rows; i++) {
        float *z = logits + i * job->count;
        float largest = finish_logits(z, job->bias ? job->bias + job->first
                                                   : NULL,
                                      job->count, job->head->scale,
                                      job->head->soft_cap);
        if (job->row_sum)
            add_chunk(job, block, block->row + i, z, largest);
        copy_logits(job, block->row + i, z);
    }
}

/* The chunk's rows of W as floats: in the whole widened matrix if the budget
 * has or had room for that, else in head_chunk. */
static enum tw_status widen_chunk(struct head_job *job, struct tw_weight *w,
                                  struct tw_error *err)
{
    struct twp_cpu *cpu = job->cpu;
    const struct tw_matrix *m = &w->matrix;
    int64_t bytes = m->rows * m->cols * (int64_t)sizeof(float);
    if (m->dtype == TW_F32 || w->wide ||
        bytes <= cpu->keep_bytes - cpu->kept_bytes) {
        enum tw_status status = twp_weight_f32(cpu, w, &job->wide, err);
        if (status == TW_OK)
            job->wide += job->first * m->cols;
        return status;
    }
    size_t need = (size_t)m->cols * CHUNK * sizeof(float);
    if (cpu->head_chunk_bytes < need) {
        tw_free(cpu->head_chunk);
        cpu->head_chunk_bytes = 0;
        cpu->head_chunk = tw_alloc_aligned(need, 1);
        if (!cpu->head_chunk)
            return tw_error_set(err, TW_ERR_NOMEM,
                                "cpu: out of memory for the loss head");
        cpu->head_chunk_bytes = need;
    }
    size_t at = (size_t)(job->first * m->cols) * tw_dtype_size(m->dtype);
    twp_widen_parallel(cpu, cpu->head_chunk, (const char *)m->data + at,
                       m->dtype, job->count * m->cols);
    job->wide = cpu->head_chunk;
    return TW_OK;
}

static enum tw_status reserve(struct twp_cpu *cpu, const struct head_job *job,
                              struct tw_error *err)
{
    int64_t chunk = job->vocab < CHUNK ? job->vocab : CHUNK;
    size_t logits = (size_t)chunk * TWP_BLOCK * sizeof(float);
    enum tw_status status = twp_scratch_reserve(cpu, SLOT_OUT, logits, err);
    if (status == TW_OK)
        status = twp_scratch_reserve(cpu, SLOT_LOGITS, logits, err);
    if (status == TW_OK)
        status = twp_scratch_reserve(
            cpu, SLOT_PAD, (size_t)job->width * TWP_BLOCK * sizeof(float), err);
    return status;
}

static enum tw_status check_targets(const struct tw_batch *batch, int64_t vocab,
                                    struct tw_error *err)
{
    for (int64_t row = 0; row < batch->rows; row++)
        if (batch->token[row] < 0 || batch->token[row] >= vocab)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %ld is not among the loss head's "
                                "%lld rows",
                                (long)batch->token[row], (long long)vocab);
    return TW_OK;
}

static void write_losses(const struct head_job *job, float *nll)
{
    const struct twp_cpu *cpu = job->cpu;
    for (int64_t i = 0; i < cpu->blocks; i++) {
        const struct twp_block *block = &cpu->block[i];
        for (int64_t row = block->row; row < block->row + block->rows; row++) {
            const struct row_sum *state = &job->row_sum[row];
            double loss =
                log(state->sum) + ((double)state->max - (double)state->target);
            nll[row] = target_of(cpu, block, row) < 0 ? NAN : (float)loss;
        }
    }
}

static enum tw_status run_chunks(struct head_job *job, struct tw_weight *w,
                                 struct tw_error *err)
{
    enum tw_status status = reserve(job->cpu, job, err);
    if (status == TW_OK)
        status = twp_vector_f32(job->cpu, &job->head->bias, SLOT_BIAS,
                                &job->bias, err);
    for (; status == TW_OK && job->first < job->vocab; job->first += CHUNK) {
        int64_t left = job->vocab - job->first;
        job->count = left < CHUNK ? left : CHUNK;
        status = widen_chunk(job, w, err);
        if (status == TW_OK)
            tw_threads_run(job->cpu->threads, head_block, job,
                           job->cpu->blocks);
    }
    return status;
}

enum tw_status twp_cpu_head_nll(void *ctx, const void *x,
                                const struct tw_weight *w,
                                const struct tw_head *head,
                                struct tw_head_obs *obs, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    const struct tw_batch *batch = cpu->batch;
    assert(batch);
    struct head_job job = {.cpu = cpu, .x = x, .head = head,
                           .vocab = w->matrix.rows, .width = w->matrix.cols};
    float *nll = obs ? obs->nll : NULL;
    if (!nll && head->logit_rows == 0)
        return TW_OK;
    enum tw_status status = TW_OK;
    if (nll) {
        status = check_targets(batch, job.vocab, err);
        if (status == TW_OK)
            status = twp_scratch_reserve(
                cpu, SLOT_ROWS, (size_t)batch->rows * sizeof(struct row_sum),
                err);
        if (status != TW_OK)
            return status;
        job.row_sum = cpu->scratch[0].memory[SLOT_ROWS];
        for (int64_t row = 0; row < batch->rows; row++)
            job.row_sum[row] = (struct row_sum){.max = -INFINITY};
    }
    /* The widened copy is a cache inside the weight. */
    status = run_chunks(&job, (struct tw_weight *)w, err);
    if (status == TW_OK && nll)
        write_losses(&job, nll);
    return status;
}
