/* Inside batches: sequences are cut from the ids at hand (one document, or the
 * stream's unread end) and wait there until they are copied into a batch. */
#ifndef TW_TEXT_BATCHES_INTERNAL_H
#define TW_TEXT_BATCHES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/batches.h"
#include "text/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One sequence, not copied yet: ids [from, from + count) of `ids`. */
struct twp_sequence {
    int64_t document, start;
    size_t from, count;
    bool adds_bos;
};

struct tw_batches {
    const struct tw_documents *source;
    struct tw_batch_options options;
    struct tw_batch_totals totals;
    struct tw_ids ids; /* at hand */
    size_t cursor;     /* first id that no sequence has taken */
    int64_t document;  /* of `ids` (docs); the next window (stream) */
    int64_t start;     /* rows of that document cut so far */
    bool is_ended;     /* the source, or the limit */
    bool is_joined;    /* the stream has a document already */
    struct twp_sequence pending;
    bool is_pending; /* did not fit the last batch */
    /* the batch */
    int64_t *offset, *numbers, *starts;
    size_t offset_capacity, numbers_capacity, starts_capacity;
    int32_t *token;
    uint8_t *row_class;
    size_t token_capacity, class_capacity;
    size_t rows, seqs;
};

/* The next sequence to give out, pending; is_pending false at the end. */
TW_MUST_USE enum tw_status twp_batches_find(struct tw_batches *batches,
                                            struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
