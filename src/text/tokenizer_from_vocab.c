/* A tokenizer from the arrays of a vocabulary: GPT-2's kind (merges listed,
 * bytes in its alphabet) and Llama's (SentencePiece's, merges by score). */
#include <config.h>

#include <string.h>

#include "text/tokenizer_internal.h"
#include "text/vocab.h"

static enum tw_status add_merges(struct tw_tokenizer *tokenizer,
                                 const struct tw_vocab *vocab,
                                 struct tw_error *err)
{
    enum tw_status status = twp_bpe_create(&tokenizer->bpe, err);
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
                                 const struct tw_vocab *vocab,
                                 const struct twp_build *how,
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
        status = twp_pieces_add(tokenizer, vocab, how, err);
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
                                  const struct tw_vocab *vocab,
                                  const struct twp_build *how,
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
        status = twp_pieces_add(tokenizer, vocab, how, err);
    tokenizer->bpe.unknown = find_unknown(vocab);
    tokenizer->bpe.fuses_unknown = true;
    if (status == TW_OK)
        status = twp_scores_merges(tokenizer, vocab, err);
    if (vocab->add_bos != TW_VOCAB_NO)
        tokenizer->bos = vocab->bos;
    return status;
}

enum tw_status twp_vocab_build(struct tw_tokenizer *tokenizer,
                               const struct tw_vocab *vocab,
                               const struct twp_build *how,
                               struct tw_error *err)
{
    static const struct {
        const char *model;
        enum tw_status (*build)(struct tw_tokenizer *, const struct tw_vocab *,
                                const struct twp_build *, struct tw_error *);
    } kinds[] = {{"gpt2", build_gpt2}, {"llama", build_llama}};
    enum tw_status status = twp_pieces_check(vocab, err);
    if (status != TW_OK)
        return status;
    tokenizer->eos = vocab->eos;
    for (int i = 0; vocab->model && i < 2; i++)
        if (strcmp(kinds[i].model, vocab->model) == 0)
            return kinds[i].build(tokenizer, vocab, how, err);
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
    const struct twp_build how = {0};
    if (!tokenizer)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status = twp_vocab_build(tokenizer, vocab, &how, err);
    if (status != TW_OK) {
        tw_tokenizer_close(tokenizer);
        return status;
    }
    twp_default_eos(tokenizer);
    hash_vocab(tokenizer, vocab);
    *out = tokenizer;
    return TW_OK;
}
