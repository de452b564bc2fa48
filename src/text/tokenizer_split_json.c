/* Reads the pre-tokenizer. What stands behind ByteLevel sees the letters of
 * bytes instead of text (Falcon's splits digits there). */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"

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

enum tw_status twp_stages_isolate(const char *pattern,
                                  struct twp_stages *stages,
                                  struct tw_error *err)
{
    struct twp_stage stage = {.behavior = TWP_ISOLATED};
    return push_pattern(stages, stage, pattern, strlen(pattern), false, err);
}

enum tw_status twp_stages_gpt2(bool adds_space, struct twp_stages *stages,
                               struct tw_error *err)
{
    struct twp_stage space = {.kind = TWP_ADD_SPACE};
    enum tw_status status = TW_OK;
    if (adds_space)
        status = push_take(stages, &space, err);
    return status == TW_OK ? twp_stages_isolate(TWP_GPT2_PATTERN, stages, err)
                           : status;
}

static enum tw_status read_behavior(const json_t *json,
                                    enum twp_behavior *behavior,
                                    struct tw_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous",
                                        "MergedWithPrevious", "MergedWithNext"};
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

static enum tw_status read_digits(const json_t *json, struct twp_stages *stages,
                                  struct tw_error *err)
{
    bool is_each = json_is_true(json_object_get(json, "individual_digits"));
    struct twp_stage stage = {.behavior =
                                  is_each ? TWP_ISOLATED : TWP_CONTIGUOUS};
    return push_pattern(stages, stage, "\\p{N}", 5, false, err);
}

/* Unicode's punctuation and what ASCII counts as such. */
static enum tw_status read_punctuation(const json_t *json,
                                       struct twp_stages *stages,
                                       struct tw_error *err)
{
    static const char pattern[] = "[\\p{P}$+<=>^`|~]";
    struct twp_stage stage = {.behavior = TWP_ISOLATED};
    enum tw_status status = TW_OK;
    if (json_object_get(json, "behavior"))
        status = read_behavior(json, &stage.behavior, err);
    return status == TW_OK ? push_pattern(stages, stage, pattern,
                                          sizeof pattern - 1, false, err)
                           : status;
}

/* Both switches are on where they are not given, as in the original. */
static enum tw_status read_byte_level(const json_t *json,
                                      struct twp_stages *stages,
                                      struct tw_error *err)
{
    struct twp_stage space = {.kind = TWP_ADD_SPACE};
    bool adds_space = !json_is_false(json_object_get(json, "add_prefix_space"));
    if (!json_is_false(json_object_get(json, "use_regex")))
        return twp_stages_gpt2(adds_space, stages, err);
    return adds_space ? push_take(stages, &space, err) : TW_OK;
}

/* An old file has add_prefix_space in place of the scheme. */
static enum tw_status read_scheme(const json_t *json, enum twp_prepend *scheme,
                                  struct tw_error *err)
{
    static const char *const names[] = {"always", "first", "never"};
    const json_t *given = json_object_get(json, "prepend_scheme");
    const char *name = given ? json_string_value(given) : "always";
    if (!given && json_is_false(json_object_get(json, "add_prefix_space")))
        name = "never";
    for (int i = 0; name && i <= TWP_PREPEND_NEVER; i++) {
        if (strcmp(name, names[i]) == 0) {
            *scheme = (enum twp_prepend)i;
            return TW_OK;
        }
    }
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "pre-tokenizer Metaspace with prepend_scheme '%.60s' "
                        "(supported: always, first, never)",
                        name ? name : "none");
}

static enum tw_status read_metaspace(const json_t *json,
                                     struct twp_stages *stages,
                                     struct tw_error *err)
{
    struct twp_stage stage = {
        .kind = TWP_METASPACE,
        .is_split = !json_is_false(json_object_get(json, "split"))};
    const json_t *mark = json_object_get(json, "replacement");
    const char *text = json_is_string(mark) ? json_string_value(mark) : "";
    stage.mark_size = twp_utf8_length(text);
    if (!text[0] || json_string_length(mark) != stage.mark_size)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "pre-tokenizer Metaspace: its replacement is not "
                            "one character");
    memcpy(stage.mark, text, stage.mark_size);
    enum tw_status status = read_scheme(json, &stage.prepend, err);
    return status == TW_OK ? push_take(stages, &stage, err) : status;
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

static const struct type {
    const char *name;
    enum tw_status (*read)(const json_t *, struct twp_stages *,
                           struct tw_error *);
    bool is_behind; /* may stand behind ByteLevel */
} types[] = {{"Split", read_split, true},
             {"Digits", read_digits, true},
             {"Punctuation", read_punctuation, true},
             {"ByteLevel", read_byte_level, false},
             {"Metaspace", read_metaspace, false}};

static const struct type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

/* The first stage behind ByteLevel turns its bytes into letters. */
static enum tw_status add_letters(struct twp_stages *stages,
                                  struct tw_error *err)
{
    struct twp_stage letters = {.kind = TWP_LETTERS};
    if (stages->has_letters)
        return TW_OK;
    stages->has_letters = true;
    return push_take(stages, &letters, err);
}

static enum tw_status read_one(const json_t *json, int depth,
                               struct twp_stages *stages, bool *is_byte_level,
                               struct tw_error *err)
{
    const char *name = json_string_value(json_object_get(json, "type"));
    enum tw_status status = TW_OK;
    if (!name || depth > SEQUENCE_DEPTH_MAX)
        return tw_error_set(err, TW_ERR_FORMAT,
                            name ? "pre-tokenizers stand too deep"
                                 : "a pre-tokenizer without a type");
    if (strcmp(name, "Sequence") == 0)
        return read_sequence(json, depth, stages, is_byte_level, err);
    const struct type *type = find_type(name);
    if (!type)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "pre-tokenizer '%.60s' (supported: Split, Digits, "
                            "Punctuation, ByteLevel, Metaspace, Sequence)",
                            name);
    if (*is_byte_level && !type->is_behind)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "pre-tokenizer '%.60s' behind ByteLevel", name);
    if (*is_byte_level)
        status = add_letters(stages, err);
    if (type->read == read_byte_level)
        *is_byte_level = true;
    return status == TW_OK ? type->read(json, stages, err) : status;
}

enum tw_status twp_stages_read(const json_t *json, struct twp_stages *stages,
                               bool *is_byte_level, struct tw_error *err)
{
    *is_byte_level = false;
    if (!json || json_is_null(json))
        return TW_OK;
    return read_one(json, 0, stages, is_byte_level, err);
}
