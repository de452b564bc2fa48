/* config.json, with a record of what was looked up. Python writes NaN and
 * Infinity, which JSON has not: outside strings they become the strings
 * "NaN" and "Infinity", so that a file with one loads and only a lookup of
 * that field fails. */
#include <config.h>

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "load/checkpoint.h"
#include "load/config_internal.h"
#include "load/load_internal.h"

#define CONFIG_LIMIT (64u << 20)
enum { SHOWN_BYTES = 200, FIELD_BYTES = 96 };

/* The name that starts at text, if it is one Python writes for a number. */
static const char *python_number(const char *text, size_t left)
{
    static const char *const name[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (left >= strlen(name[i]) &&
            memcmp(text, name[i], strlen(name[i])) == 0)
            return name[i];
    return NULL;
}

static void quote_numbers(struct tw_strbuf *out, const char *text, size_t size)
{
    bool in_string = false;
    size_t from = 0, i = 0;
    while (i < size) {
        const char *name = in_string ? NULL : python_number(text + i, size - i);
        if (name) {
            tw_strbuf_append(out, text + from, i - from);
            tw_strbuf_printf(out, "\"%s\"", name);
            i += strlen(name);
            from = i;
            continue;
        }
        if (in_string && text[i] == '\\')
            i++; /* whatever it is, it ends no string */
        else if (text[i] == '"')
            in_string = !in_string;
        i++;
    }
    tw_strbuf_append(out, text + from, size - from);
}

static enum tw_status parse(struct tw_config *config, const char *text,
                            size_t size, struct tw_error *err)
{
    json_error_t cause;
    struct tw_strbuf json = {0};
    quote_numbers(&json, text, size);
    if (json.is_failed) {
        tw_strbuf_fini(&json);
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            config->file);
    }
    config->root = json_loadb(tw_strbuf_text(&json), json.length,
                              JSON_REJECT_DUPLICATES, &cause);
    tw_strbuf_fini(&json);
    if (!config->root)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: line %d: %s", config->file,
                            cause.line, cause.text);
    if (!json_is_object(config->root))
        return tw_error_set(err, TW_ERR_FORMAT, "%s: not a JSON object",
                            config->file);
    return TW_OK;
}

enum tw_status tw_config_open(const char *path, struct tw_config **out,
                              struct tw_error *err)
{
    char *text;
    size_t size;
    enum tw_status status = tw_file_read(path, CONFIG_LIMIT, &text, &size, err);
    if (status != TW_OK)
        return status;
    struct tw_config *config = tw_calloc(1, sizeof *config);
    if (config) {
        config->file = tw_strdup(tw_path_base(path));
        config->used = json_object();
    }
    if (!config || !config->file || !config->used)
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    else
        status = parse(config, text, size, err);
    tw_free(text);
    if (status != TW_OK)
        tw_config_close(config);
    else
        *out = config;
    return status;
}

void tw_config_close(struct tw_config *config)
{
    if (!config)
        return;
    json_decref(config->root);
    json_decref(config->used);
    json_decref(config->origins);
    json_decref(config->entered_used);
    json_decref(config->overridden);
    tw_free(config->entered_name);
    tw_free(config->file);
    tw_free(config);
}

/* The member of an object or, by its number, of a list. */
static json_t *member(json_t *json, const char *name)
{
    char *end;
    if (json_is_object(json))
        return json_object_get(json, name);
    unsigned long at = strtoul(name, &end, 10);
    return *end ? NULL : json_array_get(json, at);
}

/* Descends a dotted name. *value NULL: absent or null. A step into something
 * that is no object is an error, never an absence. */
static enum tw_status look_up(struct tw_config *config, const char *field,
                              json_t **value, struct tw_error *err)
{
    json_t *at = config->entered ? config->entered : config->root;
    json_t *used = config->entered ? config->entered_used : config->used;
    const char *part = field;
    char name[FIELD_BYTES];
    for (;;) {
        size_t length = strcspn(part, ".");
        assert(length < sizeof name); /* names are the program's own */
        memcpy(name, part, length);
        name[length] = '\0';
        if (!json_is_object(at) && !json_is_array(at))
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: field '%.*s' is not an object",
                                config->file, (int)(part - field - 1), field);
        if (part == field)
            json_object_set_new(used, name, json_true());
        at = member(at, name);
        if (!at || json_is_null(at) || part[length] == '\0')
            break;
        part += length + 1;
    }
    *value = json_is_null(at) ? NULL : at;
    return TW_OK;
}

static enum tw_status look_up_needed(struct tw_config *config,
                                     const char *field, json_t **value,
                                     struct tw_error *err)
{
    enum tw_status status = look_up(config, field, value, err);
    if (status == TW_OK && !*value)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: no field '%s'",
                            config->file, field);
    return status;
}

static enum tw_status wrong_type(const struct tw_config *config,
                                 const char *field, const char *wanted,
                                 struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: field '%s' is not %s",
                        config->file, field, wanted);
}

static enum tw_status to_int(const struct tw_config *config, const char *field,
                             const json_t *json, int64_t *value,
                             struct tw_error *err)
{
    if (!json_is_integer(json))
        return wrong_type(config, field, "an integer", err);
    *value = json_integer_value(json);
    return TW_OK;
}

static enum tw_status to_real(const struct tw_config *config, const char *field,
                              const json_t *json, double *value,
                              struct tw_error *err)
{
    if (!json_is_number(json) || !isfinite(json_number_value(json)))
        return wrong_type(config, field, "a number", err);
    *value = json_number_value(json);
    return TW_OK;
}

static enum tw_status to_text(const struct tw_config *config, const char *field,
                              const json_t *json, const char **value,
                              struct tw_error *err)
{
    if (!json_is_string(json))
        return wrong_type(config, field, "a text", err);
    *value = json_string_value(json);
    return TW_OK;
}

bool tw_config_has(struct tw_config *config, const char *field)
{
    json_t *value;
    return look_up(config, field, &value, NULL) == TW_OK && value;
}

bool tw_config_is_null(struct tw_config *config, const char *field)
{
    json_t *at = config->entered ? config->entered : config->root;
    return json_is_null(json_object_get(at, field));
}

enum tw_status tw_config_length(struct tw_config *config, const char *field,
                                size_t *length, struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up(config, field, &json, err);
    if (status == TW_OK && json && !json_is_array(json))
        status = wrong_type(config, field, "a list", err);
    if (status == TW_OK)
        *length = json ? json_array_size(json) : 0;
    return status;
}

enum tw_status tw_config_enter(struct tw_config *config, const char *field,
                               struct tw_error *err)
{
    json_t *json;
    assert(!config->entered);
    enum tw_status status = look_up_needed(config, field, &json, err);
    if (status == TW_OK && !json_is_object(json))
        status = wrong_type(config, field, "an object", err);
    if (status != TW_OK)
        return status;
    config->entered_used = json_object();
    config->entered_name = tw_strdup(field);
    if (!config->entered_used || !config->entered_name)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            config->file);
    config->entered = json;
    return TW_OK;
}

enum tw_status tw_config_int(struct tw_config *config, const char *field,
                             int64_t *value, struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up_needed(config, field, &json, err);
    return status != TW_OK ? status : to_int(config, field, json, value, err);
}

enum tw_status tw_config_int_or(struct tw_config *config, const char *field,
                                int64_t fallback, int64_t *value,
                                struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up(config, field, &json, err);
    if (status == TW_OK && json)
        return to_int(config, field, json, value, err);
    if (status == TW_OK)
        *value = fallback;
    return status;
}

enum tw_status tw_config_real(struct tw_config *config, const char *field,
                              double *value, struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up_needed(config, field, &json, err);
    return status != TW_OK ? status : to_real(config, field, json, value, err);
}

enum tw_status tw_config_real_or(struct tw_config *config, const char *field,
                                 double fallback, double *value,
                                 struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up(config, field, &json, err);
    if (status == TW_OK && json)
        return to_real(config, field, json, value, err);
    if (status == TW_OK)
        *value = fallback;
    return status;
}

enum tw_status tw_config_bool_or(struct tw_config *config, const char *field,
                                 bool fallback, bool *value,
                                 struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up(config, field, &json, err);
    if (status != TW_OK)
        return status;
    if (json && !json_is_boolean(json))
        return wrong_type(config, field, "true or false", err);
    *value = json ? json_is_true(json) : fallback;
    return TW_OK;
}

enum tw_status tw_config_text(struct tw_config *config, const char *field,
                              const char **value, struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up_needed(config, field, &json, err);
    return status != TW_OK ? status : to_text(config, field, json, value, err);
}

enum tw_status tw_config_text_or(struct tw_config *config, const char *field,
                                 const char *fallback, const char **value,
                                 struct tw_error *err)
{
    json_t *json;
    enum tw_status status = look_up(config, field, &json, err);
    if (status == TW_OK && json)
        return to_text(config, field, json, value, err);
    if (status == TW_OK)
        *value = fallback;
    return status;
}

/* The first bytes of a field's JSON. */
struct shown {
    char text[SHOWN_BYTES + 1];
    size_t size;
};

static int show(const char *bytes, size_t size, void *arg)
{
    struct shown *shown = arg;
    size_t room = SHOWN_BYTES - shown->size;
    size_t taken = size < room ? size : room;
    memcpy(shown->text + shown->size, bytes, taken);
    shown->size += taken;
    return taken == size ? 0 : -1;
}

/* Drops the last character, which the cut may have gone through. */
static void drop_character(struct shown *shown)
{
    unsigned char last = 0x80;
    while (shown->size > 0 && (last & 0xc0) == 0x80)
        last = (unsigned char)shown->text[--shown->size];
}

void tw_config_override(struct tw_config *config, const char *field,
                        const char *why)
{
    if (!config->overridden)
        config->overridden = json_object();
    json_object_set_new(config->overridden, field, json_string(why));
}

static void each_of(json_t *object, json_t *used, json_t *overridden,
                    const char *prefix, tw_config_field_fn *fn, void *arg)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        struct tw_strbuf full = {0};
        struct shown shown = {.size = 0};
        size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
        if (json_dump_callback(value, show, &shown, flags) != 0)
            drop_character(&shown);
        shown.text[shown.size] = '\0';
        tw_strbuf_printf(&full, "%s%s%s", prefix, *prefix ? "." : "", name);
        fn(arg, full.is_failed ? name : tw_strbuf_text(&full), shown.text,
           json_object_get(used, name) != NULL,
           json_string_value(json_object_get(overridden, name)));
        tw_strbuf_fini(&full);
    }
}

void tw_config_each(struct tw_config *config, tw_config_field_fn *fn, void *arg)
{
    json_t *inner = config->overridden, *outer = config->entered ? NULL : inner;
    each_of(config->root, config->used, outer, "", fn, arg);
    if (config->entered)
        each_of(config->entered, config->entered_used, inner,
                config->entered_name, fn, arg);
}
