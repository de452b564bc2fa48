/* Batches: sequences copied one behind the other, with a class for each row. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/batches_internal.h"

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

static enum tw_status check_options(const struct tw_batch_options *o,
                                    struct tw_error *err)
{
    if (o->ctx < 1 || (o->bos >= 0 && o->ctx < 2))
        return tw_error_set(err, TW_ERR_USAGE,
                            "a context of %lld tokens is too short",
                            (long long)o->ctx);
    if (o->batch_tokens < 1)
        return tw_error_set(err, TW_ERR_USAGE, "a batch of %lld tokens",
                            (long long)o->batch_tokens);
    if (o->shards < 1 || o->shard < 0 || o->shard >= o->shards)
        return tw_error_set(err, TW_ERR_USAGE, "shard %lld of %lld",
                            (long long)o->shard, (long long)o->shards);
    if (o->bos >= o->vocab || o->eos >= o->vocab)
        return tw_error_set(err, TW_ERR_USAGE,
                            "BOS %ld or EOS %ld is outside the vocabulary of "
                            "%lld tokens",
                            (long)o->bos, (long)o->eos, (long long)o->vocab);
    return TW_OK;
}

enum tw_status tw_batches_create(const struct tw_documents *documents,
                                 const struct tw_batch_options *options,
                                 struct tw_batches **out, struct tw_error *err)
{
    enum tw_status status = check_options(options, err);
    if (status != TW_OK)
        return status;
    struct tw_batches *batches = tw_calloc(1, sizeof *batches);
    if (!batches)
        return no_memory(err);
    batches->source = documents;
    batches->options = *options;
    batches->document = options->split == TW_SPLIT_STREAM ? 0 : -1;
    *out = batches;
    return TW_OK;
}

void tw_batches_destroy(struct tw_batches *batches)
{
    if (!batches)
        return;
    tw_ids_fini(&batches->ids);
    tw_free(batches->offset);
    tw_free(batches->numbers);
    tw_free(batches->starts);
    tw_free(batches->token);
    tw_free(batches->row_class);
    tw_free(batches);
}

void tw_batches_resize(struct tw_batches *batches, int64_t batch_tokens)
{
    batches->options.batch_tokens = batch_tokens;
}

int tw_batches_file(const struct tw_batches *batches)
{
    return batches->file;
}

void tw_batches_totals(const struct tw_batches *batches,
                       struct tw_batch_totals *totals)
{
    *totals = batches->totals;
}

static uint8_t classify(const struct tw_batch_options *options, int32_t id,
                        int64_t position)
{
    uint8_t class = TW_ROW_TEXT;
    if (position == 0 && options->bos >= 0 && id == options->bos)
        class = TW_ROW_BOS;
    else if ((options->bos >= 0 && id == options->bos) ||
             (options->eos >= 0 && id == options->eos) ||
             (options->tokenizer &&
              tw_tokenizer_is_special(options->tokenizer, id)))
        class = TW_ROW_SPECIAL;
    if ((class == TW_ROW_BOS && options->skip_bos) ||
        (class == TW_ROW_SPECIAL && options->skip_special) ||
        position < options->skip_first)
        class |= TW_ROW_SKIPPED;
    return class;
}

static int reserve(struct tw_batches *b, size_t rows, size_t seqs)
{
    if (tw_grow((void **)&b->token, &b->token_capacity, rows,
                sizeof *b->token) != 0 ||
        tw_grow((void **)&b->row_class, &b->class_capacity, rows,
                sizeof *b->row_class) != 0 ||
        tw_grow((void **)&b->offset, &b->offset_capacity, seqs + 1,
                sizeof *b->offset) != 0 ||
        tw_grow((void **)&b->numbers, &b->numbers_capacity, seqs,
                sizeof *b->numbers) != 0 ||
        tw_grow((void **)&b->starts, &b->starts_capacity, seqs,
                sizeof *b->starts) != 0)
        return -1;
    return 0;
}

/* Copies the pending sequence in as the batch's next. */
static enum tw_status append_sequence(struct tw_batches *batches,
                                      struct tw_error *err)
{
    const struct twp_sequence *sequence = &batches->pending;
    const int32_t *id = batches->ids.id + sequence->from;
    size_t length = sequence->count + sequence->adds_bos;
    size_t rows = batches->rows;
    if (reserve(batches, rows + length, batches->seqs + 1) != 0)
        return no_memory(err);
    if (sequence->adds_bos)
        batches->token[rows++] = batches->options.bos;
    memcpy(batches->token + rows, id, sequence->count * sizeof *id);
    for (size_t i = 0; i < length; i++)
        batches->row_class[batches->rows + i] =
            classify(&batches->options, batches->token[batches->rows + i],
                     (int64_t)i);
    batches->numbers[batches->seqs] = sequence->document;
    batches->starts[batches->seqs] = sequence->start;
    batches->rows += length;
    batches->offset[++batches->seqs] = (int64_t)batches->rows;
    batches->totals.rows += (int64_t)length;
    batches->totals.sequences++;
    batches->is_pending = false;
    return TW_OK;
}

/* At least one sequence, then as many as fit. */
static bool fits(const struct tw_batches *batches)
{
    size_t length = batches->pending.count + batches->pending.adds_bos;
    return batches->seqs == 0 ||
           batches->rows + length <= (size_t)batches->options.batch_tokens;
}

enum tw_status tw_batches_next(struct tw_batches *batches,
                               struct tw_batch *batch, struct tw_error *err)
{
    batches->rows = batches->seqs = 0;
    if (reserve(batches, 1, 1) != 0)
        return no_memory(err);
    batches->offset[0] = 0;
    enum tw_status status = TW_OK;
    for (;;) {
        if (!batches->is_pending)
            status = twp_batches_find(batches, err);
        if (status != TW_OK || !batches->is_pending || !fits(batches))
            break;
        status = append_sequence(batches, err);
        if (status != TW_OK)
            break;
    }
    if (status != TW_OK)
        return status;
    *batch = (struct tw_batch){.rows = (int64_t)batches->rows,
                               .seqs = (int64_t)batches->seqs,
                               .offset = batches->offset,
                               .document = batches->numbers,
                               .start = batches->starts,
                               .token = batches->token,
                               .row_class = batches->row_class};
    return TW_OK;
}
