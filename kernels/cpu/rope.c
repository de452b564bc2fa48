/* Rotary embedding, half-split: (x_i, x_{i+d/2}), or interleaved:
 * (x_2i, x_{2i+1}), turns by position * freq_i.
 * As Hugging Face has it, the angle is a float product; cos and sin are taken
 * of that float, then scaled. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cpu/clones.h"
#include "kernels/cpu/vmath.h"

struct table_job {
    struct twp_rope_table *table;
    int64_t first; /* first position to compute */
};

static void table_position(void *arg, int worker, int64_t piece)
{
    const struct table_job *job = arg;
    struct twp_rope_table *table = job->table;
    int64_t position = job->first + piece, at = position * table->half;
    (void)worker;
    for (int64_t i = 0; i < table->half; i++) {
        float angle = (float)position * table->inv_freq[i];
        table->cos[at + i] = cosf(angle) * table->scale;
        table->sin[at + i] = sinf(angle) * table->scale;
    }
}

static enum tw_status table_grow(struct twp_cpu *cpu,
                                 struct twp_rope_table *table,
                                 int64_t positions, struct tw_error *err)
{
    if (positions <= table->positions)
        return TW_OK;
    size_t count = (size_t)positions * (size_t)table->half;
    float *grown = tw_realloc(table->cos, count, sizeof *grown);
    if (grown)
        table->cos = grown;
    float *grown_sin =
        grown ? tw_realloc(table->sin, count, sizeof *grown) : NULL;
    if (!grown_sin)
        return tw_error_set(err, TW_ERR_NOMEM,
                            "cpu: out of memory for %lld rotary positions",
                            (long long)positions);
    table->sin = grown_sin;
    struct table_job job = {table, table->positions};
    table->positions = positions;
    tw_threads_run(cpu->threads, table_position, &job, positions - job.first);
    return TW_OK;
}

static void table_fini(struct twp_rope_table *table)
{
    tw_free(table->inv_freq);
    tw_free(table->cos);
    tw_free(table->sin);
    *table = (struct twp_rope_table){0};
}

void twp_rope_fini(struct twp_cpu *cpu)
{
    for (int i = 0; i < TWP_ROPES; i++)
        table_fini(&cpu->rope[i]);
}

/* The rope's table, compared by content: the caller may free and reuse its
 * frequencies' memory. */
static enum tw_status table_find(struct twp_cpu *cpu,
                                 const struct tw_rope *rope,
                                 struct twp_rope_table **table,
                                 struct tw_error *err)
{
    int64_t half = rope->dims / 2;
    size_t bytes = (size_t)half * sizeof *rope->inv_freq;
    for (int i = 0; i < TWP_ROPES; i++) {
        *table = &cpu->rope[i];
        if ((*table)->half == half && (*table)->scale == rope->scale &&
            memcmp((*table)->inv_freq, rope->inv_freq, bytes) == 0)
            return TW_OK;
    }
    *table = &cpu->rope[cpu->next_rope];
    table_fini(*table);
    float *copy = tw_alloc((size_t)half, sizeof *copy);
    if (!copy)
        return tw_error_set(err, TW_ERR_NOMEM, "cpu: out of memory");
    memcpy(copy, rope->inv_freq, bytes);
    (*table)->inv_freq = copy;
    (*table)->half = half;
    (*table)->scale = rope->scale;
    cpu->next_rope = (cpu->next_rope + 1) % TWP_ROPES;
    return TW_OK;
}

struct rope_job {
    const struct twp_cpu *cpu;
    float *x;
    int64_t heads, head_dim;
    const struct twp_rope_table *table;
    bool is_interleaved;
};

static void turn_interleaved(float *x, const float *cosine, const float *sine,
                             int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

TWP_CLONES
static void turn_half_split(float *x, const float *cosine, const float *sine,
                            int64_t half)
{
    for (int64_t i = 0; i < half; i += TWP_LANES) {
        twp_v16 a, b, c, s, turned;
        twp_load_part(&a, x + i, half - i, 0.0f);
        twp_load_part(&b, x + half + i, half - i, 0.0f);
        twp_load_part(&c, cosine + i, half - i, 0.0f);
        twp_load_part(&s, sine + i, half - i, 0.0f);
        turned = a * c - b * s;
        twp_store_part(x + i, &turned, half - i);
        turned = b * c + a * s;
        twp_store_part(x + half + i, &turned, half - i);
    }
}

static void rope_block(void *arg, int worker, int64_t piece)
{
    const struct rope_job *job = arg;
    const struct twp_block *block = &job->cpu->block[piece];
    int64_t half = job->table->half;
    (void)worker;
    for (int64_t i = 0; i < block->rows; i++) {
        int64_t at = (block->position + i) * half;
        float *row = job->x + (block->row + i) * job->heads * job->head_dim;
        for (int64_t head = 0; head < job->heads; head++)
            (job->is_interleaved ? turn_interleaved : turn_half_split)(
                row + head * job->head_dim, job->table->cos + at,
                job->table->sin + at, half);
    }
}

enum tw_status twp_cpu_rope(void *ctx, void *x, int64_t heads, int64_t head_dim,
                            const struct tw_rope *rope, struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    struct twp_rope_table *table;
    assert(cpu->batch && rope->dims > 0 && rope->dims % 2 == 0);
    assert(rope->dims <= head_dim);
    enum tw_status status = table_find(cpu, rope, &table, err);
    if (status == TW_OK)
        status = table_grow(cpu, table, twp_longest_sequence(cpu), err);
    if (status != TW_OK)
        return status;
    struct rope_job job = {cpu,      x,     heads,
                           head_dim, table, rope->is_interleaved};
    tw_threads_run(cpu->threads, rope_block, &job, cpu->blocks);
    return TW_OK;
}
