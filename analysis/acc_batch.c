/* What a batch says without any layer: segments of equal rows, places in the
 * corpus, rows per kind, block, position and document, and the loss. */
#include <config.h>

#include <assert.h>
#include <math.h>

#include "analysis/profile_internal.h"
#include "base/memory.h"

static int kind_of(uint8_t row_class)
{
    int class = row_class & TW_ROW_CLASS_MASK;
    assert(class < TW_ROW_CLASSES);
    return class * 2 + !!(row_class & TW_ROW_SKIPPED);
}

static enum tw_status check_tokens(const struct tw_profile *p,
                                   const struct tw_batch *batch,
                                   struct tw_error *err)
{
    for (int64_t i = 0; i < batch->rows; i++)
        if (batch->token[i] < 0 || batch->token[i] >= p->config.vocab)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "token id %d is outside the vocabulary of %lld",
                                (int)batch->token[i],
                                (long long)p->config.vocab);
    return TW_OK;
}

/* Room for every row: it may be a segment of its own. */
static enum tw_status reserve(struct tw_profile *p,
                              const struct tw_batch *batch,
                              struct tw_error *err)
{
    size_t rows = (size_t)batch->rows;
    size_t sums = rows * (size_t)p->config.probes;
    int64_t longest = 0;
    for (int64_t s = 0; s < batch->seqs; s++) {
        int64_t length = batch->offset[s + 1] - batch->offset[s];
        longest = length > longest ? length : longest;
    }
    if (tw_grow((void **)&p->segment, &p->segments_room, rows,
                sizeof *p->segment) ||
        tw_grow((void **)&p->place, &p->places_room, rows, sizeof *p->place) ||
        tw_grow((void **)&p->by_token, &p->by_token_room, 2 * rows,
                sizeof *p->by_token) ||
        tw_grow((void **)&p->row_sum, &p->row_sums_room, sums,
                sizeof *p->row_sum))
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a batch");
    return twp_positions_reserve(p, longest, err);
}

/* Cuts sequence s where its rows' kind changes. */
static void cut_sequence(struct tw_profile *p, const struct tw_batch *batch,
                         int64_t s)
{
    int64_t begin = batch->offset[s], end = batch->offset[s + 1];
    int64_t group = batch->document[s] + batch->start[s] / p->config.ctx;
    struct twp_segment *now = NULL;
    p->stamp++;
    for (int64_t row = begin; row < end; row++) {
        int kind = kind_of(batch->row_class[row]);
        p->place[row] = (struct twp_place){batch->document[s],
                                           batch->start[s] + row - begin};
        assert(row == 0 || twp_is_before(p->place[row - 1], p->place[row]));
        if (!now || now->kind != kind) {
            now = &p->segment[p->segments++];
            *now = (struct twp_segment){.begin = row,
                                        .position = row - begin,
                                        .kind = kind,
                                        .block = (int)(group % TWP_BLOCKS),
                                        .is_even = group % 2 == 0,
                                        .stamp = p->stamp};
        }
        now->end = row + 1;
    }
}

enum tw_status twp_batch_begin(struct tw_profile *p,
                               const struct tw_batch *batch,
                               struct tw_error *err)
{
    enum tw_status status = check_tokens(p, batch, err);
    if (!status)
        status = reserve(p, batch, err);
    if (status)
        return status;
    p->segments = 0;
    for (int64_t s = 0; s < batch->seqs; s++)
        cut_sequence(p, batch, s);
    twp_tokens_sort(p, batch);
    if (batch->rows > 0) {
        struct twp_place end = p->place[batch->rows - 1];
        p->is_later = twp_is_before(p->latest, p->place[0]);
        if (twp_is_before(p->latest, end))
            p->latest = end;
    }
    return TW_OK;
}

static void count_segment(struct tw_profile *p, const struct twp_segment *seg)
{
    p->kind_count[seg->kind] += seg->end - seg->begin;
    if (TWP_IS_SKIPPED(seg->kind))
        return;
    p->block_count[seg->block] += seg->end - seg->begin;
    int64_t *count = p->position_count + seg->position;
    for (int64_t i = 0; i < seg->end - seg->begin; i++)
        count[i]++;
}

/* Rounds every loss and sums it, skipped rows too; NaN is none. */
static enum tw_status add_loss(struct tw_profile *p,
                               const struct twp_segment *seg, const float *nll,
                               struct tw_error *err)
{
    for (int64_t row = seg->begin; row < seg->end; row++) {
        if (isnan(nll[row]))
            continue;
        if (isinf(nll[row]))
            return tw_error_set(err, TW_ERR_NUMERIC,
                                "document %lld, row %lld: infinite loss",
                                (long long)p->place[row].document,
                                (long long)p->place[row].row);
        double scaled = (double)nll[row] * TW_NLL_SCALE;
        int is_over = !(fabs(scaled) < 0x1p63);
        int64_t units = is_over ? 0 : llrint(scaled);
        is_over |= twp_add(&p->sum_nll, units);
        is_over |= twp_add(&p->block_nll[seg->block], units);
        if (is_over)
            return tw_error_set(err, TW_ERR_OVERFLOW,
                                "the sum of losses exceeds 64 bits");
        p->block_predicted[seg->block]++;
        p->predicted++;
    }
    return TW_OK;
}

enum tw_status twp_batch_count(struct tw_profile *p,
                               const struct tw_batch *batch, const float *nll,
                               struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int64_t s = 0; s < batch->seqs && !status; s++)
        status = twp_document_add(p, batch->document[s],
                                  batch->offset[s + 1] - batch->offset[s], 1,
                                  err);
    for (size_t i = 0; i < p->segments && !status; i++) {
        count_segment(p, &p->segment[i]);
        if (nll)
            status = add_loss(p, &p->segment[i], nll, err);
    }
    return status;
}
