/* Vocabularies of characters (SentencePiece's byte-pair kind): a character
 * without a token is its bytes' tokens, or the unknown one.
 *
 * Such text comes unsplit, a whole document as one word. It is cut where that
 * cannot change an id: between two characters that stand next to each other
 * in no merge, one at the end of its left, one at the start of its right
 * side. Of ASCII and the mark of a space every pair is known, others share
 * bits by hash: a bit too many only makes a word longer. So words are short
 * and the word cache finds them. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define SPACE_MARK 0x2581u
#define MARK_CLASS 128u
#define NO_CLASS   129u
#define PAIR_BITS  20

struct twp_characters {
    bool has_fallback, is_complete; /* bytes have tokens; all 256 */
    bool is_whole;                  /* no place to cut can be trusted */
    int32_t ascii[128];
    bool is_known[MARK_CLASS + 1];
    uint8_t exact[MARK_CLASS + 1][MARK_CLASS / 8 + 1];
    uint8_t pairs[1 << (PAIR_BITS - 3)];
};

struct twp_characters *twp_characters_create(bool has_fallback)
{
    struct twp_characters *characters = tw_calloc(1, sizeof *characters);
    if (!characters)
        return NULL;
    characters->has_fallback = has_fallback;
    return characters;
}

void twp_characters_destroy(struct twp_characters *characters)
{
    tw_free(characters);
}

/* The byte of a token like "<0x0A>", -1: it is none. */
static int token_byte(const char *token, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    if (size != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>')
        return -1;
    const char *high = memchr(digits, token[3], 16);
    const char *low = memchr(digits, token[4], 16);
    return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

void twp_characters_piece(const struct twp_characters *characters,
                          const char *token, size_t size, bool is_raw,
                          struct tw_strbuf *out)
{
    int byte =
        characters->has_fallback && !is_raw ? token_byte(token, size) : -1;
    size_t mark = strlen(TWP_SPACE_MARK);
    if (byte >= 0) {
        tw_strbuf_append(out, &(char){(char)byte}, 1);
        return;
    }
    for (size_t i = 0; i < size;) {
        size_t length = twp_utf8_length(token + i);
        if (length == mark && memcmp(token + i, TWP_SPACE_MARK, mark) == 0)
            tw_strbuf_puts(out, " ");
        else
            tw_strbuf_append(out, token + i, length);
        i += length;
    }
}

void twp_characters_finish(struct tw_tokenizer *tokenizer)
{
    struct twp_characters *characters = tokenizer->characters;
    struct twp_bpe *bpe = &tokenizer->bpe;
    const struct twp_strings *words = &tokenizer->words;
    characters->is_complete = characters->has_fallback;
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        bpe->byte_id[byte] = characters->has_fallback
                                 ? twp_strings_find(&tokenizer->tokens, name, 6)
                                 : -1;
        characters->is_complete &= bpe->byte_id[byte] >= 0;
    }
    for (int c = 0; c < 128; c++) {
        characters->ascii[c] = twp_strings_find(words, &(char){(char)c}, 1);
        characters->is_known[c] = characters->ascii[c] >= 0;
    }
    characters->is_known[MARK_CLASS] =
        twp_strings_find(words, TWP_SPACE_MARK, strlen(TWP_SPACE_MARK)) >= 0;
    /* Runs of unknown characters are one word's business. */
    if (characters->has_fallback && !characters->is_complete)
        characters->is_whole = true;
}

/* --- Which characters a merge may join --- */

static unsigned class_of(uint32_t code)
{
    return code < MARK_CLASS    ? code
           : code == SPACE_MARK ? MARK_CLASS
                                : NO_CLASS;
}

static uint32_t pair_bit(uint32_t a, uint32_t b)
{
    uint64_t pair = (uint64_t)a << 21 | b;
    return (uint32_t)((pair * UINT64_C(0x9e3779b97f4a7c15)) >>
                      (64 - PAIR_BITS));
}

static bool may_join(const struct twp_characters *characters, uint32_t a,
                     uint32_t b)
{
    unsigned left = class_of(a), right = class_of(b);
    if (left <= MARK_CLASS && right <= MARK_CLASS)
        return characters->exact[left][right / 8] >> right % 8 & 1;
    uint32_t bit = pair_bit(a, b);
    return characters->pairs[bit / 8] >> bit % 8 & 1;
}

void twp_characters_join(struct twp_characters *characters, const char *left,
                         size_t left_size, const char *right, size_t right_size)
{
    size_t at = left_size, length;
    if (left_size == 0 || right_size == 0 || token_byte(left, left_size) >= 0 ||
        token_byte(right, right_size) >= 0) {
        characters->is_whole = true;
        return;
    }
    do
        at--;
    while (at > 0 && ((unsigned char)left[at] & 0xc0) == 0x80);
    uint32_t a = twp_utf8_get(left + at, &length);
    uint32_t b = twp_utf8_get(right, &length);
    unsigned row = class_of(a), column = class_of(b);
    uint32_t bit = pair_bit(a, b);
    if (row <= MARK_CLASS && column <= MARK_CLASS)
        characters->exact[row][column / 8] |= (uint8_t)(1u << column % 8);
    else
        characters->pairs[bit / 8] |= (uint8_t)(1u << bit % 8);
}

void twp_characters_keep_whole(struct twp_characters *characters)
{
    characters->is_whole = true;
}

/* The end of the word that starts at from. */
static size_t word_end(const struct twp_characters *characters,
                       const char *text, size_t size, size_t from)
{
    size_t length;
    uint32_t last = twp_utf8_get(text + from, &length), code;
    for (size_t at = from + length; at < size; at += length) {
        code = twp_utf8_get(text + at, &length);
        if (!may_join(characters, last, code)) {
            unsigned class = class_of(code);
            if (characters->is_complete ||
                (class <= MARK_CLASS && characters->is_known[class]))
                return at;
        }
        last = code;
    }
    return size;
}

enum tw_status twp_characters_encode(struct twp_encoder *encoder,
                                     const char *text, size_t size)
{
    const struct tw_tokenizer *tokenizer = encoder->tokenizer;
    const struct twp_characters *characters = tokenizer->characters;
    enum tw_status status = TW_OK;
    size_t end;
    if (tokenizer->bpe.ignores_merges) {
        int32_t id = twp_strings_find(&tokenizer->words, text, size);
        if (id >= 0)
            return tw_ids_push(encoder->ids, id, encoder->err);
    }
    for (size_t at = 0; status == TW_OK && at < size; at = end) {
        end =
            characters->is_whole ? size : word_end(characters, text, size, at);
        status = twp_word_encode(encoder, text + at, end - at);
    }
    return status;
}

/* --- From characters to symbols --- */

/* The bytes' tokens, false where one has none. */
static bool put_bytes(const struct twp_bpe *bpe, const char *text, size_t size,
                      struct tw_ids *out)
{
    for (size_t i = 0; i < size; i++) {
        int32_t id = bpe->byte_id[(unsigned char)text[i]];
        if (id < 0)
            return false;
        out->id[out->count + i] = id;
    }
    out->count += size;
    return true;
}

/* An unknown character waits for the next known one; bytes don't wait for it,
 * as in the original. */
enum tw_status twp_characters_spell(struct twp_encoder *encoder,
                                    const char *word, size_t size)
{
    const struct tw_tokenizer *tokenizer = encoder->tokenizer;
    const struct twp_characters *characters = tokenizer->characters;
    const struct twp_bpe *bpe = &tokenizer->bpe;
    struct tw_ids *out = &encoder->word;
    int32_t waiting = -1;
    size_t length;
    if (tw_grow((void **)&out->id, &out->capacity, size, sizeof *out->id) != 0)
        return tw_error_set(encoder->err, TW_ERR_NOMEM, "out of memory");
    out->count = 0;
    for (size_t i = 0; i < size; i += length) {
        length = twp_utf8_length(word + i);
        int32_t id =
            length == 1 ? characters->ascii[(unsigned char)word[i]]
                        : twp_strings_find(&tokenizer->words, word + i, length);
        if (id < 0 && put_bytes(bpe, word + i, length, out))
            continue;
        if (waiting >= 0 && (id >= 0 || !bpe->fuses_unknown)) {
            out->id[out->count++] = waiting;
            waiting = -1;
        }
        if (id >= 0)
            out->id[out->count++] = id;
        else
            waiting = bpe->unknown;
    }
    if (waiting >= 0)
        out->id[out->count++] = waiting;
    return TW_OK;
}
