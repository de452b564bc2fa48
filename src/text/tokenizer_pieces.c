/* The pieces of a vocabulary given as arrays: what a file may not say, and
 * which of them are looked for in the text as added tokens are. */
#include <config.h>

#include "text/tokenizer_internal.h"
#include "text/vocab.h"

#define PIECES_MAX (INT64_C(1) << 24)

static enum tw_status check_id(const struct tw_vocab *vocab, int32_t id,
                               const char *name, struct tw_error *err)
{
    if (id >= -1 && id < vocab->pieces)
        return TW_OK;
    return tw_error_set(err, TW_ERR_FORMAT,
                        "the %s token's id %ld is outside 0..%lld", name,
                        (long)id, (long long)vocab->pieces - 1);
}

static enum tw_status check_texts(const struct tw_vocab_text *text,
                                  int64_t count, const char *name,
                                  struct tw_error *err)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += text[i].size;
        if (total > INT32_MAX)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "the %ss have more than 2 GiB", name);
        if (twp_utf8_check(text[i].bytes, text[i].size) != text[i].size)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s %lld is not valid UTF-8", name,
                                (long long)i);
    }
    return TW_OK;
}

enum tw_status twp_pieces_check(const struct tw_vocab *vocab,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (vocab->pieces < 1 || vocab->pieces > PIECES_MAX)
        return tw_error_set(err, TW_ERR_FORMAT, "%lld pieces, not 1 to %lld",
                            (long long)vocab->pieces, (long long)PIECES_MAX);
    const struct {
        int32_t id;
        const char *name;
    } ids[] = {{vocab->bos, "bos"},
               {vocab->eos, "eos"},
               {vocab->unk, "unknown"},
               {vocab->pad, "padding"}};
    for (int i = 0; status == TW_OK && i < 4; i++)
        status = check_id(vocab, ids[i].id, ids[i].name, err);
    if (status == TW_OK && vocab->add_bos == TW_VOCAB_YES && vocab->bos < 0)
        status =
            tw_error_set(err, TW_ERR_FORMAT, "adds a bos token but names none");
    if (status == TW_OK && vocab->add_eos == TW_VOCAB_YES && vocab->eos < 0)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "adds an eos token but names none");
    if (status == TW_OK)
        status = check_texts(vocab->piece, vocab->pieces, "piece", err);
    if (status == TW_OK)
        status = check_texts(vocab->merge, vocab->merges, "merge", err);
    return status;
}

/* Bos, eos and pad are control tokens whatever the file says. */
static int32_t type_of(const struct tw_vocab *vocab, int32_t id)
{
    if (id == vocab->bos || id == vocab->eos || id == vocab->pad)
        return TW_VOCAB_CONTROL;
    return vocab->type ? vocab->type[id] : TW_VOCAB_NORMAL;
}

static enum tw_status add_piece(struct tw_tokenizer *tokenizer,
                                const struct tw_vocab *vocab, int32_t id,
                                bool is_behind, struct tw_error *err)
{
    const struct tw_vocab_text *piece = &vocab->piece[id];
    int32_t type = type_of(vocab, id);
    struct twp_added added = {.id = id,
                              .is_special = type == TW_VOCAB_CONTROL ||
                                            type == TW_VOCAB_UNKNOWN};
    bool is_added = added.is_special || type == TW_VOCAB_USER_DEFINED;
    if (twp_strings_find(&tokenizer->tokens, piece->bytes, piece->size) >= 0)
        return twp_vocab_set_piece(tokenizer, piece->bytes, piece->size, id,
                                   is_added, err);
    enum tw_status status =
        twp_vocab_add(tokenizer, piece->bytes, piece->size, id, is_added, err);
    if (status != TW_OK || !is_added)
        return status;
    tokenizer->piece[id].is_special = added.is_special;
    return twp_added_add(is_behind && !added.is_special ? &tokenizer->normalized
                                                        : &tokenizer->raw,
                         piece->bytes, piece->size, &added, err);
}

/* A piece given twice is found as the last, so that one goes in first. */
enum tw_status twp_pieces_add(struct tw_tokenizer *tokenizer,
                              const struct tw_vocab *vocab,
                              const struct twp_build *how, struct tw_error *err)
{
    enum tw_status status = twp_vocab_init(
        tokenizer, how->size > vocab->pieces ? how->size : vocab->pieces, err);
    for (int64_t id = vocab->pieces; status == TW_OK && id-- > 0;)
        status = add_piece(tokenizer, vocab, (int32_t)id,
                           how->is_user_defined_behind, err);
    if (status == TW_OK)
        status = twp_vocab_finish(tokenizer, err);
    if (status == TW_OK)
        status = twp_tokens_classes(tokenizer, err);
    return status;
}
