/* A tokenizer from the arrays of a vocabulary: GPT-2's kind (merges listed,
 * bytes in its alphabet) and Llama's (SentencePiece's, merges by score). */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"
#include "text/vocab.h"

#define PIECES_MAX (INT64_C(1) << 24)

/* --- What every kind needs --- */

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

static enum tw_status check(const struct tw_vocab *vocab, struct tw_error *err)
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

/* A user-defined piece of SentencePiece has marks where the text has spaces. */
static enum tw_status add_with_spaces(struct tw_tokenizer *tokenizer,
                                      const struct tw_vocab_text *piece,
                                      const struct twp_added *added,
                                      struct tw_error *err)
{
    struct tw_strbuf text = {0};
    enum tw_status status = TW_OK;
    twp_characters_piece(tokenizer->characters, piece->bytes, piece->size, true,
                         &text);
    if (text.is_failed)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (text.length != piece->size)
        status =
            twp_added_add(&tokenizer->raw, text.data, text.length, added, err);
    tw_strbuf_fini(&text);
    return status;
}

static enum tw_status add_piece(struct tw_tokenizer *tokenizer,
                                const struct tw_vocab *vocab, int32_t id,
                                struct tw_error *err)
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
    status =
        twp_added_add(&tokenizer->raw, piece->bytes, piece->size, &added, err);
    if (status == TW_OK && tokenizer->characters && !added.is_special)
        status = add_with_spaces(tokenizer, piece, &added, err);
    return status;
}

/* A piece given twice is found as the last, so that one goes in first. */
static enum tw_status add_pieces(struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab, int64_t size,
                                 struct tw_error *err)
{
    enum tw_status status = twp_vocab_init(
        tokenizer, size > vocab->pieces ? size : vocab->pieces, err);
    for (int64_t id = vocab->pieces; status == TW_OK && id-- > 0;)
        status = add_piece(tokenizer, vocab, (int32_t)id, err);
    if (status == TW_OK)
        status = twp_vocab_finish(tokenizer, err);
    if (status == TW_OK)
        status = twp_tokens_classes(tokenizer, err);
    return status;
}

/* --- The kinds --- */

static enum tw_status add_merges(struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab,
                                 struct tw_error *err)
{
    enum tw_status status =
        twp_bpe_create(&tokenizer->bpe, err);
    for (int64_t i = 0; status == TW_OK && i < vocab->merges; i++) {
        const char *text = vocab->merge[i].bytes;
        size_t size = vocab->merge[i].size;
        const char *space = size > 1 ? memchr(text + 1, ' ', size - 1) : NULL;
        if (!space)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "merge %lld is not two tokens", (long long)i);
        size_t left = (size_t)(space - text);
        status = twp_vocab_merge(tokenizer, text, left, space + 1,
                                 size - left - 1, (uint32_t)i, err);
    }
    return status;
}

static enum tw_status build_gpt2(struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab, int64_t size,
                                 struct tw_error *err)
{
    const struct twp_pre *pre = NULL;
    struct twp_step *step;
    enum tw_status status =
        twp_pre_find(vocab->pre ? vocab->pre : "default", &pre, err);
    if (status == TW_OK && vocab->merges < 1)
        status = tw_error_set(err, TW_ERR_FORMAT, "no merges");
    if (status != TW_OK)
        return status;
    tokenizer->bpe.ignores_merges = pre->ignores_merges;
    if (pre->is_nfc)
        status =
            twp_normalizer_add(&tokenizer->normalizer, TWP_NFC, &step, err);
    if (status == TW_OK)
        status = twp_pre_stages(pre, &tokenizer->stages, err);
    if (status == TW_OK)
        status = add_pieces(tokenizer, vocab, size, err);
    if (status == TW_OK)
        status = add_merges(tokenizer, vocab, err);
    if (vocab->add_bos == TW_VOCAB_YES ||
        (vocab->add_bos == TW_VOCAB_UNSET && pre->adds_bos))
        tokenizer->bos = vocab->bos;
    return status;
}

/* Spaces as SentencePiece's normalizer leaves them. */
static enum tw_status add_steps(struct twp_normalizer *normalizer,
                                const struct tw_vocab *vocab,
                                struct tw_error *err)
{
    size_t mark = strlen(TWP_SPACE_MARK);
    struct twp_step *step;
    enum tw_status status = TW_OK;
    if (vocab->remove_extra_whitespaces == TW_VOCAB_YES)
        status = twp_normalizer_add(normalizer, TWP_SQUEEZE, &step, err);
    if (status == TW_OK && vocab->add_space_prefix != TW_VOCAB_NO) {
        status = twp_normalizer_add(normalizer, TWP_PREPEND, &step, err);
        if (status == TW_OK)
            status = twp_step_texts(step, "", 0, TWP_SPACE_MARK, mark, err);
    }
    if (status == TW_OK)
        status = twp_normalizer_add(normalizer, TWP_REPLACE, &step, err);
    return status == TW_OK
               ? twp_step_texts(step, " ", 1, TWP_SPACE_MARK, mark, err)
               : status;
}

static bool has_bytes(const struct tw_vocab *vocab)
{
    for (int64_t i = 0; vocab->type && i < vocab->pieces; i++)
        if (vocab->type[i] == TW_VOCAB_BYTE)
            return true;
    return false;
}

static int32_t find_unknown(const struct tw_vocab *vocab)
{
    if (vocab->unk >= 0)
        return vocab->unk;
    for (int32_t i = 0; vocab->type && i < vocab->pieces; i++)
        if (vocab->type[i] == TW_VOCAB_UNKNOWN)
            return i;
    return -1;
}

static enum tw_status build_llama(struct tw_tokenizer *tokenizer,
                                  const struct tw_vocab *vocab, int64_t size,
                                  struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (!vocab->score)
        status = tw_error_set(err, TW_ERR_FORMAT, "no scores");
    if (status == TW_OK)
        status = add_steps(&tokenizer->normalizer, vocab, err);
    if (status == TW_OK)
        status = twp_vocab_of_characters(tokenizer, has_bytes(vocab), err);
    if (status == TW_OK)
        status = add_pieces(tokenizer, vocab, size, err);
    tokenizer->bpe.unknown = find_unknown(vocab);
    tokenizer->bpe.fuses_unknown = true;
    if (status == TW_OK)
        status = twp_scores_merges(tokenizer, vocab, err);
    if (vocab->add_bos != TW_VOCAB_NO)
        tokenizer->bos = vocab->bos;
    return status;
}

enum tw_status twp_vocab_build(struct tw_tokenizer *tokenizer,
                               const struct tw_vocab *vocab, int64_t size,
                               struct tw_error *err)
{
    static const struct {
        const char *model;
        enum tw_status (*build)(struct tw_tokenizer *, const struct tw_vocab *,
                                int64_t, struct tw_error *);
    } kinds[] = {{"gpt2", build_gpt2}, {"llama", build_llama}};
    enum tw_status status = check(vocab, err);
    if (status != TW_OK)
        return status;
    tokenizer->eos = vocab->eos;
    for (int i = 0; vocab->model && i < 2; i++)
        if (strcmp(kinds[i].model, vocab->model) == 0)
            return kinds[i].build(tokenizer, vocab, size, err);
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "tokenizer model '%.60s' (supported: gpt2, llama)",
                        vocab->model ? vocab->model : "none");
}

/* --- Its name: what it was made from --- */

static void hash_number(struct tw_sha256 *hasher, int64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)number >> 8 * i);
    tw_sha256_update(hasher, bytes, sizeof bytes);
}

static void hash_texts(struct tw_sha256 *hasher,
                       const struct tw_vocab_text *text, int64_t count)
{
    hash_number(hasher, count);
    for (int64_t i = 0; i < count; i++) {
        hash_number(hasher, (int64_t)text[i].size);
        tw_sha256_update(hasher, text[i].bytes, text[i].size);
    }
}

static void hash_vocab(struct tw_tokenizer *tokenizer,
                       const struct tw_vocab *vocab)
{
    const int32_t numbers[] = {vocab->bos,
                               vocab->eos,
                               vocab->unk,
                               vocab->pad,
                               vocab->add_bos,
                               vocab->add_eos,
                               vocab->add_space_prefix,
                               vocab->remove_extra_whitespaces};
    struct tw_sha256 *hasher = &tokenizer->hasher;
    const char *pre = vocab->pre ? vocab->pre : "";
    tw_sha256_update(hasher, vocab->model, strlen(vocab->model) + 1);
    tw_sha256_update(hasher, pre, strlen(pre) + 1);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash_number(hasher, numbers[i]);
    hash_texts(hasher, vocab->piece, vocab->pieces);
    hash_texts(hasher, vocab->merge, vocab->merges);
    for (int64_t i = 0; i < vocab->pieces; i++) {
        uint32_t bits = 0;
        if (vocab->score)
            memcpy(&bits, &vocab->score[i], sizeof bits);
        hash_number(hasher, bits);
        hash_number(hasher, vocab->type ? vocab->type[i] : TW_VOCAB_NORMAL);
    }
    tw_sha256_hex(hasher, tokenizer->hash);
}

enum tw_status tw_tokenizer_from_vocab(const struct tw_vocab *vocab,
                                       struct tw_tokenizer **out,
                                       struct tw_error *err)
{
    struct tw_tokenizer *tokenizer = twp_tokenizer_create();
    if (!tokenizer)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = twp_vocab_build(tokenizer, vocab, 0, err);
    if (status != TW_OK) {
        tw_tokenizer_close(tokenizer);
        return status;
    }
    twp_default_eos(tokenizer);
    hash_vocab(tokenizer, vocab);
    *out = tokenizer;
    return TW_OK;
}
