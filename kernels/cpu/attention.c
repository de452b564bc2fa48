/* Causal attention, one (64-query block, head) a piece of work:
 *
 *     S = scale Q K^T  [64][n]   a chunk of up to CHUNK keys at a time
 *     P = e^(S - max)            running max and sum (softmax.c)
 *     O = factor O + P V [64][head_dim],  y = O / sum
 *
 * A chunk starts at a place that the block's position fixes and ends with the
 * block's last query, so that the shape of every call depends on the block's
 * position alone (R1). What lies past the sequence's end is taken as zero: its
 * rows are never read. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <string.h>

/* Keys of one product: S is then 256 KiB and stays in the second-level
 * cache. A multiple of TWP_BLOCK. */
#define CHUNK 1024

enum { SLOT_Q, SLOT_K, SLOT_V, SLOT_S, SLOT_O };

struct attention_job {
    const struct twp_cpu *cpu;
    float *y;
    const float *q, *k, *v;
    const struct tw_attention *how;
    int64_t ld_q, ld_k; /* floats from row to row; v as k, y as q */
};

/* The block's queries for one head, zero-padded where it is short. */
struct operand {
    const float *data;
    int64_t stride;
};

/* rows x width of a matrix as an operand of `wanted` rows: in place if it has
 * them, else copied to pad and followed by zeros. */
static struct operand padded(const float *data, int64_t stride, int64_t rows,
                             int64_t wanted, int64_t width, float *pad)
{
    if (rows >= wanted)
        return (struct operand){data, stride};
    for (int64_t i = 0; i < rows; i++)
        memcpy(pad + i * width, data + i * stride,
               (size_t)width * sizeof *pad);
    memset(pad + rows * width, 0,
           (size_t)((wanted - rows) * width) * sizeof *pad);
    return (struct operand){pad, width};
}

static int64_t first_key(const struct twp_block *block, int64_t window)
{
    int64_t key = window > 0 ? block->position - window + 1 : 0;
    return key > 0 ? key / TWP_BLOCK * TWP_BLOCK : 0;
}

struct head_piece {
    const struct attention_job *job;
    const struct twp_block *block;
    int64_t head;
    void **scratch;
    struct operand q;
    struct twp_softmax state[TWP_BLOCK];
};

/* c bf16(slope * bf16(position)) on all rows' scores of these keys. */
static void add_rounded_slopes(const struct head_piece *piece, int64_t key,
                               int64_t keys)
{
    const struct tw_attention *how = piece->job->how;
    float *s = piece->scratch[SLOT_S], bias[CHUNK];
    for (int64_t i = 0; i < keys; i++)
        bias[i] = how->alibi_bf16 *
                  tw_round_bf16(how->alibi[piece->head] *
                                tw_round_bf16((float)(key + i)));
    for (int row = 0; row < piece->block->rows; row++)
        for (int64_t i = 0; i < keys; i++)
            s[row * keys + i] += bias[i];
}

/* Scores of keys [key, key + keys) to weights; O takes the rows' factors. */
static void weigh(struct head_piece *piece, int64_t key, int64_t keys)
{
    const struct tw_attention *how = piece->job->how;
    float *s = piece->scratch[SLOT_S], *o = piece->scratch[SLOT_O];
    bool is_rounded = how->alibi && how->alibi_bf16 > 0;
    float slope = how->alibi && !is_rounded ? how->alibi[piece->head] : 0.0f;
    if (is_rounded)
        add_rounded_slopes(piece, key, keys);
    for (int row = 0; row < piece->block->rows; row++) {
        int64_t query = piece->block->position + row;
        int64_t from = how->window > 0 ? query - how->window + 1 : 0;
        float factor = twp_softmax_row(
            &piece->state[row], s + row * keys, keys, from - key,
            query + 1 - key, how->soft_cap, slope, key - query);
        if (factor != 1.0f)
            for (int64_t i = 0; i < how->head_dim; i++)
                o[row * how->head_dim + i] *= factor;
    }
}

static void take_chunk(struct head_piece *piece, int64_t key, int64_t keys,
                       float beta)
{
    const struct attention_job *job = piece->job;
    const struct tw_attention *how = job->how;
    const struct twp_block *block = piece->block;
    int dim = (int)how->head_dim, n = (int)keys;
    int64_t have = block->position + block->rows - key;
    int64_t kv_head = piece->head / (how->heads / how->kv_heads);
    int64_t at = (block->row - block->position + key) * job->ld_k +
                 kv_head * dim;
    float *s = piece->scratch[SLOT_S], *o = piece->scratch[SLOT_O];
    struct operand q = piece->q;
    struct operand k = padded(job->k + at, job->ld_k, have, keys, dim,
                              piece->scratch[SLOT_K]);
    struct operand v = padded(job->v + at, job->ld_k, have, keys, dim,
                              piece->scratch[SLOT_V]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TWP_BLOCK, n, dim,
                how->scale, q.data, (blasint)q.stride, k.data,
                (blasint)k.stride, 0.0f, s, n);
    weigh(piece, key, keys);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, TWP_BLOCK, dim, n,
                1.0f, s, n, v.data, (blasint)v.stride, beta, o, dim);
}

static void write_rows(const struct head_piece *piece)
{
    const struct attention_job *job = piece->job;
    int64_t dim = job->how->head_dim;
    const float *o = piece->scratch[SLOT_O];
    float *y = job->y + piece->block->row * job->ld_q + piece->head * dim;
    for (int row = 0; row < piece->block->rows; row++)
        for (int64_t i = 0; i < dim; i++)
            y[row * job->ld_q + i] = o[row * dim + i] / piece->state[row].sum;
}

static void attend(void *arg, int worker, int64_t number)
{
    const struct attention_job *job = arg;
    const struct tw_attention *how = job->how;
    const struct twp_block *block = &job->cpu->block[number / how->heads];
    struct head_piece piece = {.job = job,
                               .block = block,
                               .head = number % how->heads,
                               .scratch = job->cpu->scratch[worker].memory};
    for (int row = 0; row < TWP_BLOCK; row++)
        piece.state[row] = (struct twp_softmax){.max = -INFINITY};
    piece.q = padded(job->q + block->row * job->ld_q +
                         piece.head * how->head_dim,
                     job->ld_q, block->rows, TWP_BLOCK, how->head_dim,
                     piece.scratch[SLOT_Q]);
    int64_t start = first_key(block, how->window);
    int64_t end = block->position + TWP_BLOCK;
    for (int64_t key = start; key < end; key += CHUNK)
        take_chunk(&piece, key, end - key < CHUNK ? end - key : CHUNK,
                   key == start ? 0.0f : 1.0f);
    write_rows(&piece);
}

static enum tw_status reserve(struct twp_cpu *cpu, int64_t dim,
                              struct tw_error *err)
{
    const struct {
        int slot;
        int64_t floats;
    } need[] = {{SLOT_Q, TWP_BLOCK * dim}, {SLOT_K, CHUNK * dim},
                {SLOT_V, CHUNK * dim},     {SLOT_S, TWP_BLOCK * CHUNK},
                {SLOT_O, TWP_BLOCK * dim}};
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof need / sizeof *need && status == TW_OK; i++)
        status = twp_scratch_reserve(
            cpu, need[i].slot, (size_t)need[i].floats * sizeof(float), err);
    return status;
}

enum tw_status twp_cpu_attention(void *ctx, void *y, const void *q,
                                 const void *k, const void *v,
                                 const struct tw_attention *attention,
                                 struct tw_error *err)
{
    struct twp_cpu *cpu = ctx;
    int64_t heads = attention->heads, dim = attention->head_dim;
    assert(cpu->batch && dim > 0 && heads % attention->kv_heads == 0);
    enum tw_status status = reserve(cpu, dim, err);
    if (status != TW_OK)
        return status;
    struct attention_job job = {.cpu = cpu, .y = y, .q = q, .k = k, .v = v,
                                .how = attention, .ld_q = heads * dim,
                                .ld_k = attention->kv_heads * dim};
    tw_threads_run(cpu->threads, attend, &job, cpu->blocks * heads);
    return TW_OK;
}
