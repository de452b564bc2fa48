/* Reads the tokens themselves: the vocabulary object and the list of added
 * tokens. Ids are bounded by the number of entries, so that a huge id can't
 * ask for a huge table. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "text/tokenizer_internal.h"

#define ID_LIMIT      (INT64_C(1) << 24)
#define IDS_SPARE     65536

/* Largest id so far; refuses what is no id. */
static enum tw_status see_id(const json_t *id, const char *token, int64_t limit,
                             int64_t *largest, struct tw_error *err)
{
    int64_t value = json_integer_value(id);
    if (!json_is_integer(id))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "token '%.60s' has no whole number as its id",
                            token);
    if (value < 0 || value >= limit)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "token '%.60s' has id %lld, outside 0..%lld", token,
                            (long long)value, (long long)limit - 1);
    if (value > *largest)
        *largest = value;
    return TW_OK;
}

static enum tw_status see_added(const json_t *added, int64_t limit,
                                int64_t *largest, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (size_t i = 0; status == TW_OK && i < json_array_size(added); i++) {
        const json_t *one = json_array_get(added, i);
        const char *content =
            json_string_value(json_object_get(one, "content"));
        if (!content)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "added token %zu has no content", i);
        status =
            see_id(json_object_get(one, "id"), content, limit, largest, err);
    }
    return status;
}

enum tw_status twp_tokens_size(json_t *vocab, int64_t pieces,
                               const json_t *added, int64_t *size,
                               struct tw_error *err)
{
    int64_t largest = pieces - 1;
    int64_t entries =
        pieces + (int64_t)(json_object_size(vocab) + json_array_size(added));
    int64_t limit = entries + IDS_SPARE;
    if (limit > ID_LIMIT)
        limit = ID_LIMIT;
    const char *token;
    json_t *id;
    json_object_foreach(vocab, token, id)
    {
        enum tw_status status = see_id(id, token, limit, &largest, err);
        if (status != TW_OK)
            return status;
    }
    enum tw_status status = see_added(added, limit, &largest, err);
    *size = largest + 1;
    return status;
}

/* Normalized tokens are looked for behind the normalizer, their content
 * normalized as well. */
static enum tw_status add_normalized(struct tw_tokenizer *tokenizer,
                                     const char *content,
                                     const struct twp_added *added,
                                     struct tw_error *err)
{
    struct tw_strbuf buffer[2] = {{0}, {0}};
    struct twp_slice slice = {content, strlen(content), true};
    struct twp_matcher *matcher = twp_matcher_create(slice.size);
    enum tw_status status;
    if (!matcher)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else
        status =
            twp_normalize(&tokenizer->normalizer, matcher, &slice, buffer, err);
    if (status == TW_OK)
        status = twp_added_add(&tokenizer->normalized, slice.text, slice.size,
                               added, err);
    tw_strbuf_fini(&buffer[0]);
    tw_strbuf_fini(&buffer[1]);
    twp_matcher_destroy(matcher);
    return status;
}

static enum tw_status read_added(struct tw_tokenizer *tokenizer,
                                 const json_t *json, struct tw_error *err)
{
    const char *content = json_string_value(json_object_get(json, "content"));
    json_int_t id = json_integer_value(json_object_get(json, "id"));
    bool is_special = json_is_true(json_object_get(json, "special"));
    const json_t *normalized = json_object_get(json, "normalized");
    struct twp_added added = {
        .id = (int32_t)id,
        .is_special = is_special,
        .lstrip = json_is_true(json_object_get(json, "lstrip")),
        .rstrip = json_is_true(json_object_get(json, "rstrip")),
        .single_word = json_is_true(json_object_get(json, "single_word")),
    };
    enum tw_status status =
        twp_vocab_add(tokenizer, content, strlen(content), id, true, err);
    if (status != TW_OK)
        return status;
    tokenizer->piece[id].is_special = is_special;
    if (normalized ? json_is_true(normalized) : !is_special)
        return add_normalized(tokenizer, content, &added, err);
    return twp_added_add(&tokenizer->raw, content, strlen(content), &added,
                         err);
}

enum tw_status twp_tokens_classes(struct tw_tokenizer *tokenizer,
                                  struct tw_error *err)
{
    static const char word[] = "[" TWP_WORD_CLASS "\\x{200c}\\x{200d}]";
    enum tw_status status = twp_regex_create(word, sizeof word - 1, false,
                                             &tokenizer->word_char, err);
    if (status == TW_OK)
        status = twp_regex_create("\\s", 2, false, &tokenizer->space, err);
    return status;
}

enum tw_status twp_tokens_add(struct tw_tokenizer *tokenizer,
                              const json_t *added, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (size_t i = 0; status == TW_OK && i < json_array_size(added); i++)
        status = read_added(tokenizer, json_array_get(added, i), err);
    return status;
}

enum tw_status twp_tokens_read(struct tw_tokenizer *tokenizer, json_t *vocab,
                               const json_t *added, struct tw_error *err)
{
    int64_t size = 0;
    if (!json_is_object(vocab))
        return tw_error_set(err, TW_ERR_FORMAT, "no object 'vocab'");
    enum tw_status status = twp_tokens_size(vocab, 0, added, &size, err);
    if (status == TW_OK)
        status = twp_vocab_init(tokenizer, size, err);
    const char *token;
    json_t *id;
    json_object_foreach(vocab, token, id)
    {
        if (status == TW_OK)
            status = twp_vocab_add(tokenizer, token, strlen(token),
                                   json_integer_value(id), false, err);
    }
    if (status == TW_OK)
        status = twp_vocab_finish(tokenizer, err);
    if (status == TW_OK)
        status = twp_tokens_classes(tokenizer, err);
    return status == TW_OK ? twp_tokens_add(tokenizer, added, err) : status;
}
