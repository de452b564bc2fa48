/* The vocabulary: stored forms to ids, ids to the bytes they stand for.
 * Stored forms spell bytes in GPT-2's alphabet (tokenizer_letters.c), or
 * characters (tokenizer_characters.c). A form with characters outside the
 * alphabet stands for itself. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

enum tw_status twp_vocab_of_characters(struct tw_tokenizer *tokenizer,
                                       bool has_fallback, struct tw_error *err)
{
    tokenizer->characters = twp_characters_create(has_fallback);
    if (!tokenizer->characters)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

enum tw_status twp_vocab_init(struct tw_tokenizer *tokenizer, int64_t size,
                              struct tw_error *err)
{
    tokenizer->piece = tw_alloc((size_t)size, sizeof *tokenizer->piece);
    if (!tokenizer->piece)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tokenizer->size = size;
    for (int64_t i = 0; i < size; i++)
        tokenizer->piece[i] = (struct twp_piece){.size = TWP_NO_PIECE};
    return TW_OK;
}

/* The piece's bytes. */
static void set_piece(struct tw_tokenizer *tokenizer, const char *token,
                      size_t size, int64_t id, bool is_raw)
{
    struct tw_strbuf *bytes = &tokenizer->bytes;
    size_t offset = bytes->length;
    if (tokenizer->characters)
        twp_characters_piece(tokenizer->characters, token, size, is_raw, bytes);
    else if (is_raw || !twp_letters_to_bytes(token, size, bytes))
        tw_strbuf_append(bytes, token, size);
    tokenizer->piece[id].offset = (uint32_t)offset;
    tokenizer->piece[id].size = (bytes->length - offset) & TWP_NO_PIECE;
}

/* What a word is looked up by: its characters, one alone or with
 * ignores_merges all; or, with that, its bytes. */
static int add_word(struct tw_tokenizer *tokenizer, const char *token,
                    size_t size, int32_t id)
{
    struct tw_strbuf bytes = {0};
    bool ignores_merges = tokenizer->bpe.ignores_merges;
    int result = 0;
    if (size == 0)
        return 0;
    if (tokenizer->characters)
        return ignores_merges || twp_utf8_length(token) == size
                   ? twp_strings_add(&tokenizer->words, token, size, id)
                   : 0;
    if (ignores_merges && twp_letters_to_bytes(token, size, &bytes))
        result = twp_strings_add(&tokenizer->words, tw_strbuf_text(&bytes),
                                 bytes.length, id);
    tw_strbuf_fini(&bytes);
    return result;
}

enum tw_status twp_vocab_set_piece(struct tw_tokenizer *tokenizer,
                                   const char *token, size_t size, int64_t id,
                                   bool is_raw, struct tw_error *err)
{
    set_piece(tokenizer, token, size, id, is_raw);
    if (tokenizer->bytes.is_failed)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

static enum tw_status check_new(const struct tw_tokenizer *tokenizer,
                                const char *token, size_t size, int64_t id,
                                int32_t known, struct tw_error *err)
{
    int shown = (int)(size < 60 ? size : 60);
    if (id < 0 || id >= tokenizer->size)
        return tw_error_set(
            err, TW_ERR_FORMAT, "token '%.*s' has id %lld outside 0..%lld",
            shown, token, (long long)id, (long long)tokenizer->size - 1);
    if (known < 0 && tokenizer->piece[id].size != TWP_NO_PIECE)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "id %lld stands for two tokens, one is '%.*s'",
                            (long long)id, shown, token);
    if (known >= 0 && known != id)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "token '%.*s' has two ids, %ld and %lld", shown,
                            token, (long)known, (long long)id);
    return TW_OK;
}

enum tw_status twp_vocab_add(struct tw_tokenizer *tokenizer, const char *token,
                             size_t size, int64_t id, bool is_raw,
                             struct tw_error *err)
{
    int32_t known = twp_strings_find(&tokenizer->tokens, token, size);
    enum tw_status status = check_new(tokenizer, token, size, id, known, err);
    if (status != TW_OK)
        return status;
    set_piece(tokenizer, token, size, id, is_raw);
    if (tokenizer->bytes.is_failed ||
        (known < 0 &&
         twp_strings_add(&tokenizer->tokens, token, size, (int32_t)id) != 0) ||
        (!is_raw && add_word(tokenizer, token, size, (int32_t)id) != 0))
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

enum tw_status twp_vocab_finish(struct tw_tokenizer *tokenizer,
                                struct tw_error *err)
{
    int known = 0;
    if (tokenizer->characters) {
        twp_characters_finish(tokenizer);
        return TW_OK;
    }
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t size = twp_utf8_put(twp_letter((unsigned char)byte), text);
        int32_t id = twp_strings_find(&tokenizer->tokens, text, size);
        tokenizer->bpe.byte_id[byte] = id;
        known += id >= 0;
    }
    if (known == 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "no token of the byte-level alphabet");
    return TW_OK;
}

/* Id of one side of a merge. */
static enum tw_status find_part(const struct tw_tokenizer *tokenizer,
                                const char *part, size_t size, uint32_t rank,
                                int32_t *id, struct tw_error *err)
{
    *id = twp_strings_find(&tokenizer->tokens, part, size);
    if (*id >= 0)
        return TW_OK;
    return tw_error_set(
        err, TW_ERR_FORMAT, "merge %lu names '%.*s', which is no token",
        (unsigned long)rank, (int)(size < 60 ? size : 60), part);
}

enum tw_status twp_vocab_merge(struct tw_tokenizer *tokenizer, const char *left,
                               size_t left_size, const char *right,
                               size_t right_size, uint32_t rank,
                               struct tw_error *err)
{
    struct tw_strbuf joined = {0};
    int32_t a, b, id = -1;
    enum tw_status status =
        find_part(tokenizer, left, left_size, rank, &a, err);
    if (status == TW_OK)
        status = find_part(tokenizer, right, right_size, rank, &b, err);
    if (status != TW_OK)
        return status;
    tw_strbuf_append(&joined, left, left_size);
    tw_strbuf_append(&joined, right, right_size);
    if (joined.is_failed)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else
        status =
            find_part(tokenizer, joined.data, joined.length, rank, &id, err);
    if (status == TW_OK) {
        status = twp_bpe_add(&tokenizer->bpe, a, b, rank, id, err);
        if (tokenizer->characters)
            twp_characters_join(tokenizer->characters, left, left_size, right,
                                right_size);
        if (tokenizer->characters &&
            (a == tokenizer->bpe.unknown || b == tokenizer->bpe.unknown))
            twp_characters_keep_whole(tokenizer->characters);
    }
    tw_strbuf_fini(&joined);
    return status;
}
