/* Reads tokenizer.json's normalizer: a table of the types it may have. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "text/tokenizer_internal.h"

#define DEPTH_MAX 8

static enum tw_status read_nfc(const json_t *json,
                               struct twp_normalizer *normalizer,
                               struct tw_error *err)
{
    struct twp_step *step;
    (void)json;
    return twp_normalizer_add(normalizer, TWP_NFC, &step, err);
}

static enum tw_status read_prepend(const json_t *json,
                                   struct twp_normalizer *normalizer,
                                   struct tw_error *err)
{
    const json_t *text = json_object_get(json, "prepend");
    struct twp_step *step;
    if (!json_is_string(text))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "normalizer Prepend without a text");
    enum tw_status status =
        twp_normalizer_add(normalizer, TWP_PREPEND, &step, err);
    return status == TW_OK
               ? twp_step_texts(step, "", 0, json_string_value(text),
                                json_string_length(text), err)
               : status;
}

static enum tw_status read_replace(const json_t *json,
                                   struct twp_normalizer *normalizer,
                                   struct tw_error *err)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *text = regex ? regex : json_object_get(pattern, "String");
    const json_t *content = json_object_get(json, "content");
    struct twp_step *step;
    if (!json_is_string(text) || json_string_length(text) == 0 ||
        !json_is_string(content))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "normalizer Replace without a pattern and what "
                            "stands for it");
    enum tw_status status = twp_normalizer_add(
        normalizer, regex ? TWP_REPLACE_REGEX : TWP_REPLACE, &step, err);
    if (status == TW_OK)
        status = twp_step_texts(
            step, json_string_value(text), json_string_length(text),
            json_string_value(content), json_string_length(content), err);
    if (status == TW_OK && regex)
        status = twp_regex_create(step->pattern, step->pattern_size, false,
                                  &step->regex, err);
    return status;
}

static enum tw_status read_one(const json_t *json, int depth,
                               struct twp_normalizer *normalizer,
                               struct tw_error *err)
{
    static const struct {
        const char *type;
        enum tw_status (*read)(const json_t *, struct twp_normalizer *,
                               struct tw_error *);
    } types[] = {{"NFC", read_nfc},
                 {"Prepend", read_prepend},
                 {"Replace", read_replace}};
    const char *type = json_string_value(json_object_get(json, "type"));
    const json_t *list = json_object_get(json, "normalizers");
    enum tw_status status = TW_OK;
    for (size_t i = 0; type && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].read(json, normalizer, err);
    if (!type || strcmp(type, "Sequence") != 0 || depth > DEPTH_MAX)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "normalizer '%.60s' (supported: NFC, Prepend, "
                            "Replace, Sequence)",
                            type ? type : "without a type");
    for (size_t i = 0; status == TW_OK && i < json_array_size(list); i++)
        status = read_one(json_array_get(list, i), depth + 1, normalizer, err);
    return status;
}

enum tw_status twp_normalizer_read(const json_t *json,
                                   struct twp_normalizer *normalizer,
                                   struct tw_error *err)
{
    if (!json || json_is_null(json))
        return TW_OK;
    return read_one(json, 0, normalizer, err);
}
