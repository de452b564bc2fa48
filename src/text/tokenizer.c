/* Text to ids: added tokens, normalizer, split stages, words. And what an
 * open tokenizer knows about its ids. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define TEXT_LIMIT ((size_t)INT32_MAX)

void tw_ids_fini(struct tw_ids *ids)
{
    tw_free(ids->id);
    *ids = (struct tw_ids){0};
}

enum tw_status tw_ids_push(struct tw_ids *ids, int32_t id, struct tw_error *err)
{
    if (tw_grow((void **)&ids->id, &ids->capacity, ids->count + 1,
                sizeof *ids->id) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    ids->id[ids->count++] = id;
    return TW_OK;
}

static enum tw_status encode_plain(struct twp_encoder *encoder,
                                   const char *text, size_t size)
{
    return twp_stages_run(encoder, 0, text, size);
}

static enum tw_status encode_normalized(struct twp_encoder *encoder,
                                        const char *text, size_t size)
{
    return twp_added_split(encoder, &encoder->tokenizer->normalized, text, size,
                           encode_plain);
}

static enum tw_status encode_raw(struct twp_encoder *encoder, const char *text,
                                 size_t size)
{
    const char *first = encoder->first;
    struct twp_slice slice = {text, size, text == first};
    struct tw_strbuf buffer[2] = {{0}, {0}};
    enum tw_status status =
        twp_normalize(&encoder->tokenizer->normalizer, encoder->matcher, &slice,
                      buffer, encoder->err);
    if (status == TW_OK && slice.size > 0) {
        encoder->first = slice.is_first ? slice.text : NULL;
        status = encode_normalized(encoder, slice.text, slice.size);
        encoder->first = first;
    }
    tw_strbuf_fini(&buffer[0]);
    tw_strbuf_fini(&buffer[1]);
    return status;
}

static enum tw_status check_text(const char *text, size_t size,
                                 struct tw_error *err)
{
    if (size > TEXT_LIMIT)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "a text of %zu bytes, more than the %zu allowed",
                            size, TEXT_LIMIT);
    size_t valid = twp_utf8_check(text, size);
    if (valid == size)
        return TW_OK;
    return tw_error_set(err, TW_ERR_FORMAT, "invalid UTF-8 at byte %zu", valid);
}

enum tw_status tw_tokenizer_encode(const struct tw_tokenizer *tokenizer,
                                   const char *text, size_t size,
                                   bool parse_special, struct tw_ids *ids,
                                   struct tw_error *err)
{
    struct twp_encoder encoder = {.tokenizer = tokenizer,
                                  .parse_special = parse_special,
                                  .first = text,
                                  .ids = ids,
                                  .err = err};
    size_t before = ids->count;
    enum tw_status status = check_text(text, size, err);
    if (status != TW_OK || size == 0)
        return status;
    encoder.matcher = twp_matcher_create(size);
    if (!encoder.matcher)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (twp_cache_take(tokenizer->cache))
        encoder.cache = tokenizer->cache;
    status = twp_added_split(&encoder, &tokenizer->raw, text, size, encode_raw);
    if (encoder.cache)
        twp_cache_give_back(encoder.cache);
    twp_matcher_destroy(encoder.matcher);
    tw_ids_fini(&encoder.word);
    tw_strbuf_fini(&encoder.letters);
    if (status != TW_OK)
        ids->count = before;
    return status;
}

int64_t tw_tokenizer_size(const struct tw_tokenizer *tokenizer)
{
    return tokenizer->size;
}

const char *tw_tokenizer_piece(const struct tw_tokenizer *tokenizer, int32_t id,
                               size_t *size)
{
    if (id < 0 || id >= tokenizer->size ||
        tokenizer->piece[id].size == TWP_NO_PIECE)
        return NULL;
    *size = tokenizer->piece[id].size;
    return tw_strbuf_text(&tokenizer->bytes) + tokenizer->piece[id].offset;
}

bool tw_tokenizer_is_special(const struct tw_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && id < tokenizer->size && tokenizer->piece[id].is_special;
}

int32_t tw_tokenizer_find(const struct tw_tokenizer *tokenizer,
                          const char *token)
{
    return twp_strings_find(&tokenizer->tokens, token, strlen(token));
}

int32_t tw_tokenizer_bos(const struct tw_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t tw_tokenizer_eos(const struct tw_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

const char *tw_tokenizer_hash(const struct tw_tokenizer *tokenizer)
{
    return tokenizer->hash;
}
