/* Reads the pre-tokenizer: Split, Digits, ByteLevel and Sequence of them. The
 * byte-level one must come last, as what follows it would no longer see text
 * but the alphabet of bytes. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

#define GPT2_PATTERN                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"                 \
    " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SEQUENCE_DEPTH_MAX 8

void twp_stages_fini(struct twp_stages *stages)
{
    for (size_t i = 0; i < stages->count; i++)
        twp_regex_destroy(stages->stage[i].regex);
    tw_free(stages->stage);
    *stages = (struct twp_stages){0};
}

/* Takes stage->regex, also where it fails. */
static enum tw_status push_take(struct twp_stages *stages,
                                const struct twp_stage *stage,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (stages->count == TWP_STAGES_MAX)
        status = tw_error_set(err, TW_ERR_FORMAT, "more than %d pre-tokenizers",
                              TWP_STAGES_MAX);
    else if (tw_grow((void **)&stages->stage, &stages->capacity,
                     stages->count + 1, sizeof *stages->stage) != 0)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status == TW_OK)
        stages->stage[stages->count++] = *stage;
    else
        twp_regex_destroy(stage->regex);
    return status;
}

static enum tw_status push_pattern(struct twp_stages *stages,
                                   struct twp_stage stage, const char *pattern,
                                   size_t size, bool is_literal,
                                   struct tw_error *err)
{
    enum tw_status status =
        twp_regex_create(pattern, size, is_literal, &stage.regex, err);
    return status == TW_OK ? push_take(stages, &stage, err) : status;
}

enum tw_status twp_stages_gpt2(bool adds_space, struct twp_stages *stages,
                               struct tw_error *err)
{
    struct twp_stage stage = {.adds_space = adds_space};
    return push_pattern(stages, stage, GPT2_PATTERN, strlen(GPT2_PATTERN),
                        false, err);
}

static enum tw_status read_behavior(const json_t *json,
                                    enum twp_behavior *behavior,
                                    struct tw_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous",
                                        "MergedWithPrevious",
                                        "MergedWithNext"};
    const char *name = json_string_value(json_object_get(json, "behavior"));
    for (int i = 0; name && i <= TWP_WITH_NEXT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *behavior = (enum twp_behavior)i;
            return TW_OK;
        }
    }
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "pre-tokenizer Split with behavior '%.60s'",
                        name ? name : "none");
}

static enum tw_status read_split(const json_t *json, struct twp_stages *stages,
                                 struct tw_error *err)
{
    struct twp_stage stage = {
        .is_inverted = json_is_true(json_object_get(json, "invert"))};
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *text = regex ? regex : literal;
    enum tw_status status = read_behavior(json, &stage.behavior, err);
    if (status == TW_OK && !json_is_string(text))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "pre-tokenizer Split without a pattern");
    if (status != TW_OK)
        return status;
    return push_pattern(stages, stage, json_string_value(text),
                        json_string_length(text), !regex, err);
}

static enum tw_status read_digits(const json_t *json,
                                  struct twp_stages *stages,
                                  struct tw_error *err)
{
    bool is_each = json_is_true(json_object_get(json, "individual_digits"));
    struct twp_stage stage = {.behavior =
                                  is_each ? TWP_ISOLATED : TWP_CONTIGUOUS};
    return push_pattern(stages, stage, "\\p{N}", 5, false, err);
}

/* Both switches are on where they are not given, as in the original. */
static enum tw_status read_byte_level(const json_t *json,
                                      struct twp_stages *stages,
                                      struct tw_error *err)
{
    bool adds_space =
        !json_is_false(json_object_get(json, "add_prefix_space"));
    if (!json_is_false(json_object_get(json, "use_regex")))
        return twp_stages_gpt2(adds_space, stages, err);
    struct twp_stage stage = {.adds_space = adds_space};
    return push_take(stages, &stage, err);
}

static enum tw_status read_one(const json_t *json, int depth,
                               struct twp_stages *stages, bool *is_byte_level,
                               struct tw_error *err);

static enum tw_status read_sequence(const json_t *json, int depth,
                                    struct twp_stages *stages,
                                    bool *is_byte_level, struct tw_error *err)
{
    const json_t *list = json_object_get(json, "pretokenizers");
    enum tw_status status = TW_OK;
    if (!json_is_array(list))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "pre-tokenizer Sequence without a list");
    for (size_t i = 0; status == TW_OK && i < json_array_size(list); i++)
        status = read_one(json_array_get(list, i), depth + 1, stages,
                          is_byte_level, err);
    return status;
}

static enum tw_status read_one(const json_t *json, int depth,
                               struct twp_stages *stages, bool *is_byte_level,
                               struct tw_error *err)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type || depth > SEQUENCE_DEPTH_MAX)
        return tw_error_set(err, TW_ERR_FORMAT,
                            type ? "pre-tokenizers stand too deep"
                                 : "a pre-tokenizer without a type");
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(json, depth, stages, is_byte_level, err);
    if (*is_byte_level)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "pre-tokenizer '%.60s' behind ByteLevel", type);
    if (strcmp(type, "Split") == 0)
        return read_split(json, stages, err);
    if (strcmp(type, "Digits") == 0)
        return read_digits(json, stages, err);
    if (strcmp(type, "ByteLevel") == 0) {
        *is_byte_level = true;
        return read_byte_level(json, stages, err);
    }
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "pre-tokenizer '%.60s'",
                        type);
}

enum tw_status twp_stages_read(const json_t *json, struct twp_stages *stages,
                               struct tw_error *err)
{
    bool is_byte_level = false;
    enum tw_status status = TW_OK;
    if (json && !json_is_null(json))
        status = read_one(json, 0, stages, &is_byte_level, err);
    if (status == TW_OK && !is_byte_level)
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "no pre-tokenizer ByteLevel: not a byte-level "
                              "tokenizer");
    return status;
}
