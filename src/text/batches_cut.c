/* Documents to ids, ids to sequences. What is cut never depends on where
 * batches begin, on the shard, or on where a run resumes: those only choose
 * what is given out. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/batches_internal.h"

/* --- Documents to ids --- */

static enum tw_status check_ids(const struct tw_batches *batches, size_t from,
                                struct tw_error *err)
{
    for (size_t i = from; i < batches->ids.count; i++) {
        int32_t id = batches->ids.id[i];
        if (id < 0 || id >= batches->options.vocab)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "document %lld: token id %ld is outside the "
                                "vocabulary of %lld tokens",
                                (long long)batches->totals.documents, (long)id,
                                (long long)batches->options.vocab);
    }
    return TW_OK;
}

static enum tw_status append_ids(struct tw_batches *batches,
                                 const struct tw_document *document,
                                 struct tw_error *err)
{
    struct tw_ids *ids = &batches->ids;
    size_t count = (size_t)document->count;
    if (tw_grow((void **)&ids->id, &ids->capacity, ids->count + count,
                sizeof *ids->id) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (count)
        memcpy(ids->id + ids->count, document->ids, count * sizeof *ids->id);
    ids->count += count;
    return TW_OK;
}

static enum tw_status append_text(struct tw_batches *batches,
                                  const struct tw_document *document,
                                  struct tw_error *err)
{
    const struct tw_batch_options *options = &batches->options;
    if (!options->tokenizer)
        return tw_error_set(err, TW_ERR_USAGE, "text needs a tokenizer");
    enum tw_status status = tw_tokenizer_encode(
        options->tokenizer, document->text, document->size,
        options->parse_special, &batches->ids, err);
    if (status != TW_OK)
        tw_error_prefix(err, "document %lld",
                        (long long)batches->totals.documents);
    return status;
}

/* Counts the ids from `from` on and cuts them at the limit. */
static void count_ids(struct tw_batches *batches, size_t from)
{
    struct tw_batch_totals *totals = &batches->totals;
    int64_t limit = batches->options.limit;
    int64_t count = (int64_t)(batches->ids.count - from);
    if (limit >= 0 && count >= limit - totals->text_tokens) {
        count = limit - totals->text_tokens;
        batches->ids.count = from + (size_t)count;
        totals->is_limited = true;
        batches->is_ended = true;
    }
    totals->text_tokens += count;
    if (batches->options.file_tokens)
        batches->options.file_tokens[batches->file] += count;
}

/* Drops the ids that sequences have taken. */
static void compact(struct tw_batches *batches)
{
    struct tw_ids *ids = &batches->ids;
    if (batches->cursor > 0 && batches->cursor < ids->count)
        memmove(ids->id, ids->id + batches->cursor,
                (ids->count - batches->cursor) * sizeof *ids->id);
    ids->count -= batches->cursor;
    batches->cursor = 0;
}

/* Another shard's document is only numbered: to tokenize it would cost each of N
 * ranks what all are to share. A stream's windows and a limit need all ids. */
static bool is_others(const struct tw_batches *batches)
{
    const struct tw_batch_options *options = &batches->options;
    return options->split == TW_SPLIT_DOCS && options->limit < 0 &&
           batches->totals.documents % options->shards != options->shard;
}

/* Appends the next document's ids, behind EOS where a stream goes on. */
static enum tw_status read_document(struct tw_batches *batches,
                                    struct tw_error *err)
{
    const struct tw_batch_options *options = &batches->options;
    struct tw_document document = {0};
    bool has_document = false;
    compact(batches);
    size_t from = batches->ids.count;
    enum tw_status status = batches->source->next(
        batches->source->state, &document, &has_document, err);
    batches->is_ended = status == TW_OK && !has_document;
    if (status != TW_OK || !has_document ||
        (document.ids && document.count == 0))
        return status;
    batches->file = document.file;
    if (is_others(batches)) {
        batches->totals.documents++;
        return TW_OK;
    }
    bool joins = options->split == TW_SPLIT_STREAM && options->eos >= 0 &&
                 batches->is_joined;
    if (joins)
        status = tw_ids_push(&batches->ids, options->eos, err);
    size_t text_from = batches->ids.count;
    if (status == TW_OK)
        status = document.ids ? append_ids(batches, &document, err)
                              : append_text(batches, &document, err);
    if (status != TW_OK)
        return status;
    if (batches->ids.count == text_from) /* a text without ids joins nothing */
        batches->ids.count = from;
    else
        batches->is_joined = true;
    if (options->split == TW_SPLIT_DOCS)
        batches->document = batches->totals.documents;
    batches->start = 0;
    if (!document.ids &&
        (options->split == TW_SPLIT_STREAM ||
         batches->totals.documents % options->shards == options->shard))
        batches->totals.text_bytes += (int64_t)document.size;
    count_ids(batches, from);
    status = check_ids(batches, from, err);
    batches->totals.documents++;
    return status;
}

/* --- Ids to sequences --- */

/* Where a sequence may be cut: a document's ids are all there, a stream's
 * window must be full or the last. */
static bool has_enough(const struct tw_batches *batches)
{
    size_t left = batches->ids.count - batches->cursor;
    if (left == 0)
        return false;
    return batches->options.split == TW_SPLIT_DOCS || batches->is_ended ||
           left >= (size_t)batches->options.ctx;
}

static void cut_sequence(struct tw_batches *batches,
                         struct twp_sequence *sequence)
{
    const struct tw_batch_options *options = &batches->options;
    size_t left = batches->ids.count - batches->cursor;
    bool adds_bos = options->bos >= 0 &&
                    batches->ids.id[batches->cursor] != options->bos;
    size_t room = (size_t)options->ctx - adds_bos;
    *sequence = (struct twp_sequence){.document = batches->document,
                                  .start = batches->start,
                                  .from = batches->cursor,
                                  .count = left < room ? left : room,
                                  .adds_bos = adds_bos};
    batches->cursor += sequence->count;
    if (options->split == TW_SPLIT_STREAM)
        batches->document++;
    else
        batches->start += (int64_t)sequence->count + adds_bos;
}

/* Whether this run gives it out: of its shard, and not before its start. */
static bool is_wanted(const struct tw_batches *batches,
                      const struct twp_sequence *sequence)
{
    const struct tw_batch_options *options = &batches->options;
    if (sequence->document % options->shards != options->shard)
        return false;
    if (sequence->document != options->from_document)
        return sequence->document > options->from_document;
    return sequence->start >= options->from_start;
}

enum tw_status twp_batches_find(struct tw_batches *batches,
                                struct tw_error *err)
{
    batches->is_pending = false;
    if (batches->options.limit == 0) {
        batches->is_ended = true;
        batches->totals.is_limited = true;
    }
    for (;;) {
        while (!has_enough(batches) && !batches->is_ended) {
            enum tw_status status = read_document(batches, err);
            if (status != TW_OK)
                return status;
        }
        if (!has_enough(batches))
            return TW_OK;
        cut_sequence(batches, &batches->pending);
        if (is_wanted(batches, &batches->pending)) {
            batches->is_pending = true;
            return TW_OK;
        }
    }
}
