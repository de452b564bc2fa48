/* Reads tokenizer.json: everything in it is either taken or refused by name,
 * but for truncation, padding and the decoder, which change no id. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "text/tokenizer_internal.h"

static bool is_absent(const json_t *json)
{
    return !json || json_is_null(json);
}

/* Model settings that would change ids in ways not made here. */
static enum tw_status check_model(const json_t *model, struct tw_error *err)
{
    static const char *const suffixes[] = {"continuing_subword_prefix",
                                           "end_of_word_suffix"};
    const json_t *type = json_object_get(model, "type");
    const json_t *dropout = json_object_get(model, "dropout");
    if (!json_is_object(model))
        return tw_error_set(err, TW_ERR_FORMAT, "no object 'model'");
    if (type &&
        (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
        return tw_error_set(
            err, TW_ERR_UNSUPPORTED, "model type '%.60s' (supported: BPE)",
            json_is_string(type) ? json_string_value(type) : "without a name");
    if (!is_absent(dropout) && json_number_value(dropout) != 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "dropout");
    for (int i = 0; i < 2; i++) {
        const json_t *suffix = json_object_get(model, suffixes[i]);
        if (!is_absent(suffix) && json_string_length(suffix) > 0)
            return tw_error_set(err, TW_ERR_UNSUPPORTED, "%s", suffixes[i]);
    }
    return TW_OK;
}

/* "a b" or ["a", "b"]. */
static enum tw_status read_merge(struct tw_tokenizer *tokenizer,
                                 const json_t *merge, uint32_t rank,
                                 struct tw_error *err)
{
    const json_t *left = json_array_get(merge, 0);
    const json_t *right = json_array_get(merge, 1);
    const char *text = json_string_value(merge);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (json_array_size(merge) == 2 && json_is_string(left) &&
        json_is_string(right))
        return twp_vocab_merge(
            tokenizer, json_string_value(left), json_string_length(left),
            json_string_value(right), json_string_length(right), rank, err);
    if (!space || strchr(space + 1, ' '))
        return tw_error_set(err, TW_ERR_FORMAT, "merge %lu is not two tokens",
                            (unsigned long)rank);
    return twp_vocab_merge(tokenizer, text, (size_t)(space - text), space + 1,
                           strlen(space + 1), rank, err);
}

static enum tw_status read_merges(struct tw_tokenizer *tokenizer,
                                  const json_t *merges, struct tw_error *err)
{
    size_t count = json_array_size(merges);
    if (!json_is_array(merges))
        return tw_error_set(err, TW_ERR_FORMAT, "no array 'merges'");
    enum tw_status status = twp_bpe_create(&tokenizer->bpe, err);
    for (size_t i = 0; status == TW_OK && i < count; i++)
        status =
            read_merge(tokenizer, json_array_get(merges, i), (uint32_t)i, err);
    return status;
}

/* Bytes that have tokens and characters that have none: a token of their own
 * for each byte (tokenizer_characters.c), or the unknown one. */
static bool is_complete(const struct tw_tokenizer *tokenizer)
{
    for (int byte = 0; byte < 256; byte++)
        if (tokenizer->bpe.byte_id[byte] < 0)
            return false;
    return true;
}

static enum tw_status read_unknown(struct tw_tokenizer *tokenizer,
                                   const json_t *model, struct tw_error *err)
{
    struct twp_bpe *bpe = &tokenizer->bpe;
    const json_t *token = json_object_get(model, "unk_token");
    bpe->fuses_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    if (is_complete(tokenizer))
        return TW_OK;
    if (!tokenizer->characters &&
        json_is_true(json_object_get(model, "byte_fallback")))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "byte_fallback with a byte-level alphabet that "
                            "lacks bytes");
    if (!json_is_string(token))
        return TW_OK;
    bpe->unknown =
        twp_strings_find(&tokenizer->tokens, json_string_value(token),
                         json_string_length(token));
    if (bpe->unknown < 0)
        return tw_error_set(err, TW_ERR_FORMAT, "unk_token '%.60s' is no token",
                            json_string_value(token));
    return TW_OK;
}

/* The token a template puts before the text. */
static enum tw_status read_template(struct tw_tokenizer *tokenizer,
                                    const json_t *json, struct tw_error *err)
{
    const json_t *single = json_object_get(json, "single");
    const json_t *first = json_array_get(single, 0);
    const json_t *special = json_object_get(first, "SpecialToken");
    const char *name = json_string_value(json_object_get(special, "id"));
    if (!json_is_array(single))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "TemplateProcessing without 'single'");
    if (!special)
        return TW_OK;
    if (!json_object_get(json_array_get(single, 1), "Sequence"))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "a template with several tokens before the text");
    const json_t *entry =
        name ? json_object_get(json_object_get(json, "special_tokens"), name)
             : NULL;
    const json_t *ids = json_object_get(entry, "ids");
    const json_t *id = json_array_get(ids, 0);
    if (json_array_size(ids) != 1 || !json_is_integer(id) ||
        json_integer_value(id) < 0 || json_integer_value(id) >= tokenizer->size)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "TemplateProcessing names '%.60s', which is no "
                            "token",
                            name ? name : "nothing");
    tokenizer->bos = (int32_t)json_integer_value(id);
    return TW_OK;
}

static enum tw_status read_post_processor(struct tw_tokenizer *tokenizer,
                                          const json_t *json, int depth,
                                          struct tw_error *err)
{
    if (is_absent(json))
        return TW_OK;
    const char *type = json_string_value(json_object_get(json, "type"));
    const json_t *list = json_object_get(json, "processors");
    enum tw_status status = TW_OK;
    if (type && strcmp(type, "ByteLevel") == 0)
        return TW_OK;
    if (type && strcmp(type, "TemplateProcessing") == 0)
        return read_template(tokenizer, json, err);
    if (!type || strcmp(type, "Sequence") != 0 || depth > 8)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "post-processor '%.60s' (supported: ByteLevel, "
                            "TemplateProcessing, Sequence)",
                            type ? type : "without a type");
    for (size_t i = 0; status == TW_OK && i < json_array_size(list); i++)
        status = read_post_processor(tokenizer, json_array_get(list, i),
                                     depth + 1, err);
    return status;
}

static enum tw_status read_model(struct tw_tokenizer *tokenizer,
                                 const json_t *json, bool is_byte_level,
                                 struct tw_error *err)
{
    const json_t *model = json_object_get(json, "model");
    enum tw_status status = check_model(model, err);
    tokenizer->bpe.ignores_merges =
        json_is_true(json_object_get(model, "ignore_merges"));
    if (status == TW_OK && !is_byte_level)
        status = twp_vocab_of_characters(
            tokenizer, json_is_true(json_object_get(model, "byte_fallback")),
            err);
    if (status == TW_OK)
        status = twp_tokens_read(tokenizer, json_object_get(model, "vocab"),
                                 json_object_get(json, "added_tokens"), err);
    if (status == TW_OK)
        status = read_unknown(tokenizer, model, err);
    if (status == TW_OK)
        status = read_merges(tokenizer, json_object_get(model, "merges"), err);
    return status;
}

enum tw_status twp_tokenizer_json(struct tw_tokenizer *tokenizer,
                                  const json_t *json, struct tw_error *err)
{
    bool is_byte_level = false;
    if (!json_is_object(json))
        return tw_error_set(err, TW_ERR_FORMAT, "not a JSON object");
    enum tw_status status = twp_normalizer_read(
        json_object_get(json, "normalizer"), &tokenizer->normalizer, err);
    if (status == TW_OK)
        status = twp_stages_read(json_object_get(json, "pre_tokenizer"),
                                 &tokenizer->stages, &is_byte_level, err);
    if (status == TW_OK)
        status = read_model(tokenizer, json, is_byte_level, err);
    if (status == TW_OK)
        status = read_post_processor(
            tokenizer, json_object_get(json, "post_processor"), 0, err);
    return status;
}
