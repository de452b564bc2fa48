/* Merges of a vocabulary that has scores instead of a list of them: two
 * neighbours join where what they spell is a piece, the best score first.
 * The pairs are all splits of a piece into two; pieces of one score have one
 * rank, so that the leftmost of them goes first. */
#include <config.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"
#include "text/vocab.h"

/* Longer pieces would take steps without end: a split a character. */
#define PIECE_BYTES_MAX 1024

struct ranked {
    float score;
    int32_t id;
};
struct pair {
    int32_t left, right, id;
};
struct pairs {
    struct pair *at;
    size_t count, capacity;
};

/* Control, unknown, byte and user-defined pieces take part in no merge. */
static bool is_merged(const struct tw_vocab *vocab, int32_t id)
{
    return !vocab->type || vocab->type[id] == TW_VOCAB_NORMAL ||
           vocab->type[id] == TW_VOCAB_UNUSED;
}

static int compare(const void *a, const void *b)
{
    float x = ((const struct ranked *)a)->score;
    float y = ((const struct ranked *)b)->score;
    return (x < y) - (x > y);
}

/* rank[id], the same for the same score. */
static enum tw_status make_ranks(const struct tw_vocab *vocab, uint32_t *rank,
                                 struct tw_error *err)
{
    struct ranked *order = tw_alloc((size_t)vocab->pieces, sizeof *order);
    if (!order)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (int32_t id = 0; id < vocab->pieces; id++) {
        order[id] = (struct ranked){vocab->score[id], id};
        if (isnan(vocab->score[id])) {
            tw_free(order);
            return tw_error_set(err, TW_ERR_FORMAT,
                                "piece %ld has a score that is no number",
                                (long)id);
        }
    }
    qsort(order, (size_t)vocab->pieces, sizeof *order, compare);
    uint32_t at = 0;
    for (int64_t i = 0; i < vocab->pieces; i++) {
        at += i > 0 && order[i].score != order[i - 1].score;
        rank[order[i].id] = at;
    }
    tw_free(order);
    return TW_OK;
}

static int32_t find_merged(const struct tw_tokenizer *tokenizer,
                           const struct tw_vocab *vocab, const char *bytes,
                           size_t size)
{
    int32_t id = twp_strings_find(&tokenizer->tokens, bytes, size);
    return id >= 0 && is_merged(vocab, id) ? id : -1;
}

static int add_splits(const struct tw_tokenizer *tokenizer,
                      const struct tw_vocab *vocab, int32_t id,
                      struct pairs *pairs)
{
    const struct tw_vocab_text *piece = &vocab->piece[id];
    for (size_t at = 0; at < piece->size;) {
        at += twp_utf8_length(piece->bytes + at);
        int32_t left = at < piece->size
                           ? find_merged(tokenizer, vocab, piece->bytes, at)
                           : -1;
        int32_t right = left < 0
                            ? -1
                            : find_merged(tokenizer, vocab, piece->bytes + at,
                                          piece->size - at);
        if (right < 0)
            continue;
        if (tw_grow((void **)&pairs->at, &pairs->capacity, pairs->count + 1,
                    sizeof *pairs->at) != 0)
            return -1;
        pairs->at[pairs->count++] = (struct pair){left, right, id};
    }
    return 0;
}

static enum tw_status find_pairs(const struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab,
                                 struct pairs *pairs, struct tw_error *err)
{
    for (int32_t id = 0; id < vocab->pieces; id++) {
        const struct tw_vocab_text *piece = &vocab->piece[id];
        if (find_merged(tokenizer, vocab, piece->bytes, piece->size) != id)
            continue;
        if (piece->size > PIECE_BYTES_MAX)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "piece %ld has %zu bytes, more than the %d "
                                "allowed",
                                (long)id, piece->size, PIECE_BYTES_MAX);
        if (add_splits(tokenizer, vocab, id, pairs) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    return TW_OK;
}

enum tw_status twp_scores_merges(struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab,
                                 struct tw_error *err)
{
    struct pairs pairs = {0};
    uint32_t *rank = tw_alloc((size_t)vocab->pieces, sizeof *rank);
    enum tw_status status =
        rank ? make_ranks(vocab, rank, err)
             : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status == TW_OK)
        status = find_pairs(tokenizer, vocab, &pairs, err);
    if (status == TW_OK)
        status = twp_bpe_create(&tokenizer->bpe, err);
    for (size_t i = 0; status == TW_OK && i < pairs.count; i++) {
        const struct pair *pair = &pairs.at[i];
        const struct tw_vocab_text *left = &vocab->piece[pair->left];
        const struct tw_vocab_text *right = &vocab->piece[pair->right];
        status = twp_bpe_add(&tokenizer->bpe, pair->left, pair->right,
                             rank[pair->id], pair->id, err);
        twp_characters_join(tokenizer->characters, left->bytes, left->size,
                            right->bytes, right->size);
    }
    tw_free(rank);
    tw_free(pairs.at);
    return status;
}
