/* Documents to sequences to batches of whole sequences (DESIGN "Documents and
 * sequences"), streaming.
 *
 * --split docs: a document starts a sequence, a longer one is cut every ctx
 * tokens; the short last piece counts. --split stream: documents joined by EOS
 * and cut every ctx; each window then is a document of its own, number = its
 * place in the stream. Every sequence starts with BOS where add_bos is set,
 * inside ctx, unless it has one already. A batch is whole sequences, as many
 * as fit batch_tokens, at least one. */
#ifndef TW_TEXT_BATCHES_H
#define TW_TEXT_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/error.h"
#include "text/documents.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_split { TW_SPLIT_DOCS, TW_SPLIT_STREAM };

struct tw_batch_options {
    const struct tw_tokenizer *tokenizer; /* NULL: documents must be ids */
    int64_t ctx, batch_tokens;            /* >= 1 (add_bos: ctx >= 2) */
    int64_t limit;       /* text tokens of the whole corpus, added BOS not
                          * counted, joining EOS counted; the sequence there is
                          * cut short; -1: none */
    int64_t vocab;       /* ids outside [0, vocab) are TW_ERR_FORMAT naming the
                          * document and the id */
    enum tw_split split;
    int32_t bos, eos;    /* ids; bos -1: none is added; eos -1: nothing joins */
    bool parse_special;
    bool skip_bos, skip_special;
    int64_t skip_first;  /* rows at the start of every sequence; 0: none */
    int64_t shard, shards; /* documents with number mod shards == shard */
    /* Where a resumed run goes on: sequences before (document, start) are
     * made but not given out. */
    int64_t from_document, from_start;
    int64_t *file_tokens; /* the caller's, by tw_document.file: the text tokens
                           * of each file are added up here; NULL: unwanted */
};

struct tw_batches;

/* Totals of what was given out and seen so far. */
struct tw_batch_totals {
    int64_t documents;   /* texts of the corpus, all shards */
    int64_t text_tokens; /* of the corpus so far, as limit counts: of all shards
                          * under --split stream or a limit, else this one's */
    int64_t text_bytes;  /* of the documents that are this shard's; --split
                          * stream: of all. Ids have none */
    int64_t sequences, rows; /* given out */
    bool is_limited;     /* the limit was reached: nothing was read after it */
};

/* documents stays the caller's and is read until the end. special ids: those
 * of the tokenizer, plus bos and eos. A row is TW_ROW_BOS where bos starts its
 * sequence, added or not, TW_ROW_SPECIAL where a special id stands elsewhere.
 * Documents of no ids have no number; a text always has one. Returns TW_OK,
 * TW_ERR_USAGE naming the option that is out of range, or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_batches_create(
    const struct tw_documents *documents,
    const struct tw_batch_options *options, struct tw_batches **batches,
    struct tw_error *err);
/* The next batch, borrowed until the next call; rows 0 at the end. */
TW_MUST_USE enum tw_status tw_batches_next(struct tw_batches *batches,
                                           struct tw_batch *batch,
                                           struct tw_error *err);
/* Other batch_tokens (>= 1) from the next batch on: the same sequences. */
void tw_batches_resize(struct tw_batches *batches, int64_t batch_tokens);
/* The file of the document read last: for messages. */
int tw_batches_file(const struct tw_batches *batches);
void tw_batches_totals(const struct tw_batches *batches,
                       struct tw_batch_totals *totals);
void tw_batches_destroy(struct tw_batches *batches);

#ifdef __cplusplus
}
#endif
#endif
