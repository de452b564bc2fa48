/* The vocabulary: stored forms to ids, ids to the bytes they stand for.
 *
 * Stored forms spell bytes in GPT-2's alphabet: printable Latin-1 characters
 * for themselves, U+0100 onwards for the others, so that "Gd" with a breve
 * over the G is " d". A form with other characters stands for itself. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define NO_PIECE UINT32_MAX

static bool is_own_letter(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
}

/* The alphabet's letter for each byte. */
static void fill_letters(uint32_t letter[256])
{
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++)
        letter[byte] = is_own_letter(byte) ? byte : next++;
}

/* The byte a letter stands for, -1: not of the alphabet. */
static int letter_byte(uint32_t code)
{
    static const unsigned char ranges[][2] = {
        {0x00, 0x20}, {0x7f, 0xa0}, {0xad, 0xad}};
    if (code < 0x100)
        return is_own_letter(code) ? (int)code : -1;
    code -= 0x100;
    for (int i = 0; i < 3; i++) {
        uint32_t length = ranges[i][1] - ranges[i][0] + 1u;
        if (code < length)
            return (int)(ranges[i][0] + code);
        code -= length;
    }
    return -1;
}

/* Appends a token's bytes; false and nothing where it leaves the alphabet. */
static bool append_letters(struct tw_strbuf *out, const char *token,
                           size_t size)
{
    size_t before = out->length, length;
    for (size_t i = 0; i < size; i += length) {
        int byte = letter_byte(twp_utf8_get(token + i, &length));
        if (byte < 0) {
            out->length = before;
            return false;
        }
        tw_strbuf_append(out, &(char){(char)byte}, 1);
    }
    return true;
}

enum tw_status twp_vocab_init(struct tw_tokenizer *tokenizer, int64_t size,
                              struct tw_error *err)
{
    tokenizer->piece = tw_alloc((size_t)size, sizeof *tokenizer->piece);
    if (!tokenizer->piece)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tokenizer->size = size;
    for (int64_t i = 0; i < size; i++)
        tokenizer->piece[i] = (struct twp_piece){.size = NO_PIECE};
    return TW_OK;
}

/* The piece's bytes; is_word: it can be found by them. */
static void set_piece(struct tw_tokenizer *tokenizer, const char *token,
                      size_t size, int64_t id, bool is_raw, bool *is_word)
{
    struct tw_strbuf *bytes = &tokenizer->bytes;
    size_t offset = bytes->length;
    *is_word = !is_raw && append_letters(bytes, token, size);
    if (!*is_word)
        tw_strbuf_append(bytes, token, size);
    tokenizer->piece[id].offset = offset;
    tokenizer->piece[id].size = (uint32_t)(bytes->length - offset);
}

enum tw_status twp_vocab_add(struct tw_tokenizer *tokenizer, const char *token,
                             size_t size, int64_t id, bool is_raw,
                             struct tw_error *err)
{
    int32_t known = twp_strings_find(&tokenizer->tokens, token, size);
    bool is_new = known < 0, is_word;
    if (id < 0 || id >= tokenizer->size)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "token '%.60s' has id %lld outside 0..%lld", token,
                            (long long)id, (long long)tokenizer->size - 1);
    if (is_new && tokenizer->piece[id].size != NO_PIECE)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "id %lld stands for two tokens, one is '%.60s'",
                            (long long)id, token);
    if (!is_new && known != id)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "token '%.60s' has two ids, %ld and %lld", token,
                            (long)known, (long long)id);
    set_piece(tokenizer, token, size, id, is_raw, &is_word);
    const struct twp_piece *piece = &tokenizer->piece[id];
    if (tokenizer->bytes.is_failed ||
        (is_new && twp_strings_add(&tokenizer->tokens, token, size,
                                   (int32_t)id) != 0) ||
        (is_word && tokenizer->bpe.ignores_merges &&
         twp_strings_add(&tokenizer->words,
                         tw_strbuf_text(&tokenizer->bytes) + piece->offset,
                         piece->size, (int32_t)id) != 0))
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    return TW_OK;
}

enum tw_status twp_vocab_finish(struct tw_tokenizer *tokenizer,
                                struct tw_error *err)
{
    uint32_t letter[256];
    int known = 0;
    fill_letters(letter);
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        size_t size = twp_utf8_put(letter[byte], text);
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
    return tw_error_set(err, TW_ERR_FORMAT,
                        "merge %lu names '%.*s', which is no token",
                        (unsigned long)rank, (int)(size < 60 ? size : 60),
                        part);
}

enum tw_status twp_vocab_merge(struct tw_tokenizer *tokenizer,
                               const char *left, size_t left_size,
                               const char *right, size_t right_size,
                               uint32_t rank, struct tw_error *err)
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
        status = find_part(tokenizer, joined.data, joined.length, rank, &id,
                           err);
    if (status == TW_OK)
        twp_bpe_add(&tokenizer->bpe, a, b, rank, id);
    tw_strbuf_fini(&joined);
    return status;
}
