/* Rows per token id, and what needs every layer at once: nnz summed over
 * layers, for the even sequences' token sums and the checked total. */
#include <config.h>

#include <string.h>

#include "analysis/profile_internal.h"
#include "base/threads.h"

enum {
    CHUNK_ROWS = 512, /* their sums stay in the first-level cache */
    DIGIT_BITS = 10,  /* two passes sort 2^20 token ids */
    DIGITS = 1 << DIGIT_BITS
};

/* One pass of a radix sort by the digit at `shift`; stable. */
static void sort_digit(const struct twp_token_row *from,
                       struct twp_token_row *to, int64_t count, int shift)
{
    int64_t place[DIGITS + 1] = {0};
    for (int64_t i = 0; i < count; i++)
        place[(from[i].token >> shift) % DIGITS + 1]++;
    for (int d = 0; d < DIGITS; d++)
        place[d + 1] += place[d];
    for (int64_t i = 0; i < count; i++)
        to[place[(from[i].token >> shift) % DIGITS]++] = from[i];
}

void twp_tokens_sort(struct tw_profile *p, const struct tw_batch *batch)
{
    struct twp_token_row *rows = p->by_token, *spare = rows + batch->rows;
    int64_t count = 0;
    for (size_t i = 0; i < p->segments; i++)
        for (int64_t row = p->segment[i].begin; row < p->segment[i].end; row++)
            if (!TWP_IS_SKIPPED(p->segment[i].kind))
                rows[count++] = (struct twp_token_row){batch->token[row],
                                                       (int32_t)row};
    for (int shift = 0; p->config.vocab >> shift; shift += 2 * DIGIT_BITS) {
        sort_digit(rows, spare, count, shift);
        sort_digit(spare, rows, count, shift + DIGIT_BITS);
    }
    p->counted = count;
}

void twp_tokens_count(struct tw_profile *p, const struct tw_batch *batch)
{
    for (size_t i = 0; i < p->segments; i++) {
        const struct twp_segment *seg = &p->segment[i];
        if (TWP_IS_SKIPPED(seg->kind))
            continue;
        for (int64_t row = seg->begin; row < seg->end; row++) {
            struct twp_token *token = &p->token[batch->token[row]];
            token->count++;
            token->count_even += seg->is_even;
            token->in_sequences += token->stamp != seg->stamp;
            token->stamp = seg->stamp;
        }
    }
}

struct row_sums {
    const struct tw_layer_obs *obs;
    uint64_t *sum; /* [probes][rows] */
    int64_t rows, chunks;
    int layers;
};

/* One chunk of rows under one definition. */
static void sum_rows(void *arg, int worker, int64_t piece)
{
    struct row_sums *work = arg;
    int64_t def = piece / work->chunks;
    int64_t begin = piece % work->chunks * CHUNK_ROWS;
    int64_t count = work->rows - begin;
    count = count < CHUNK_ROWS ? count : CHUNK_ROWS;
    uint64_t *sum = work->sum + def * work->rows + begin;
    (void)worker;
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int l = 0; l < work->layers; l++) {
        const uint32_t *nnz = work->obs[l].nnz + def * work->rows + begin;
        for (int64_t i = 0; i < count; i++)
            sum[i] += nnz[i];
    }
}

static enum tw_status add_definition(struct tw_profile *p,
                                     const struct tw_batch *batch, int def,
                                     struct tw_error *err)
{
    const uint64_t *sum = p->row_sum + (int64_t)def * batch->rows;
    int64_t *even = p->sum_even + (int64_t)def * p->config.vocab;
    for (int64_t row = 0; row < batch->rows; row++)
        if (twp_add_unsigned(&p->nnz_total[def], sum[row]))
            return tw_error_set(err, TW_ERR_OVERFLOW,
                                "the sum of non-zeros exceeds 64 bits");
    for (size_t i = 0; i < p->segments; i++) {
        const struct twp_segment *seg = &p->segment[i];
        if (TWP_IS_SKIPPED(seg->kind) || !seg->is_even)
            continue;
        for (int64_t row = seg->begin; row < seg->end; row++)
            even[batch->token[row]] += (int64_t)sum[row];
    }
    return TW_OK;
}

enum tw_status twp_tokens_sum_even(struct tw_profile *p,
                                   const struct tw_batch *batch,
                                   const struct tw_layer_obs *obs,
                                   struct tw_error *err)
{
    struct row_sums work = {.obs = obs,
                            .sum = p->row_sum,
                            .rows = batch->rows,
                            .chunks = (batch->rows + CHUNK_ROWS - 1) /
                                      CHUNK_ROWS,
                            .layers = p->config.layers};
    int64_t pieces = work.chunks * p->config.probes;
    if (p->config.pool)
        tw_threads_run(p->config.pool, sum_rows, &work, pieces);
    else
        for (int64_t i = 0; i < pieces; i++)
            sum_rows(&work, 0, i);
    enum tw_status status = TW_OK;
    for (int def = 0; def < p->config.probes && !status; def++)
        status = add_definition(p, batch, def, err);
    return status;
}
