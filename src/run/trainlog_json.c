/* trainer_state.json, one array of objects, or an object a line. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "run/trainlog_internal.h"

static enum tw_status no_number(const struct twp_reader *r, const char *name,
                                struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT,
                        "%s: row %lld: '%s' is neither a number nor a list of "
                        "numbers",
                        r->path, (long long)r->row, name);
}

/* An array has a value a layer. */
static enum tw_status take_list(struct twp_reader *r, int64_t step,
                                struct twp_column column, const char *name,
                                const json_t *list, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    size_t count = json_array_size(list);
    if (column.layer >= 0 || column.field < TW_TRAIN_MEAN_NNZ ||
        count > TWP_MAX_LAYERS)
        return no_number(r, name, err);
    for (size_t i = 0; i < count && status == TW_OK; i++) {
        const json_t *value = json_array_get(list, i);
        column.layer = (int32_t)i;
        if (json_is_number(value))
            status =
                twp_reader_add(r, step, &column, json_number_value(value), err);
        else if (!json_is_null(value))
            status = no_number(r, name, err);
    }
    return status;
}

static enum tw_status take_value(struct twp_reader *r, int64_t step,
                                 const char *name, const json_t *value,
                                 struct tw_error *err)
{
    struct twp_column column = twp_column_find(name);
    if (column.is == TWP_IS_UNKNOWN)
        twp_reader_unknown(r, name);
    if (column.is != TWP_IS_VALUE || json_is_null(value))
        return TW_OK;
    if (json_is_array(value))
        return take_list(r, step, column, name, value, err);
    if (!json_is_number(value))
        return no_number(r, name, err);
    return twp_reader_add(r, step, &column, json_number_value(value), err);
}

static enum tw_status find_step(const struct twp_reader *r, json_t *row,
                                int64_t *step, struct tw_error *err)
{
    const char *name;
    json_t *value;
    *step = -1;
    json_object_foreach(
        row, name,
        value) if (twp_column_find(name).is == TWP_IS_STEP &&
                   json_is_number(
                       value)) return twp_reader_step(r,
                                                      json_number_value(value),
                                                      step, err);
    return TW_OK;
}

static enum tw_status take_row(struct twp_reader *r, json_t *row,
                               struct tw_error *err)
{
    const char *name;
    json_t *value;
    int64_t step;
    r->row++;
    if (!json_is_object(row))
        return tw_error_set(err, TW_ERR_FORMAT, "%s: row %lld is no object",
                            r->path, (long long)r->row);
    enum tw_status status = find_step(r, row, &step, err);
    if (status == TW_OK && step < 0)
        r->log->without_step++;
    if (status != TW_OK || step < 0)
        return status;
    json_object_foreach(row, name, value) if (status == TW_OK) status =
        take_value(r, step, name, value, err);
    return status;
}

static enum tw_status take_rows(struct twp_reader *r, const json_t *rows,
                                struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < json_array_size(rows) && status == TW_OK; i++)
        status = take_row(r, json_array_get(rows, i), err);
    return status;
}

/* Python writes NaN and Infinity, which JSON has not: null outside strings. */
static void put_plain(struct tw_strbuf *out, const char *text, size_t size)
{
    static const char *const names[] = {"NaN", "Infinity", "-Infinity"};
    bool in_string = false;
    size_t from = 0;
    for (size_t i = 0; i < size; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else
                in_string = text[i] != '"';
            continue;
        }
        in_string = text[i] == '"';
        for (size_t n = 0; n < 3; n++) {
            size_t length = strlen(names[n]);
            if (size - i < length || memcmp(text + i, names[n], length) != 0)
                continue;
            tw_strbuf_append(out, text + from, i - from);
            tw_strbuf_puts(out, "null");
            i += length - 1;
            from = i + 1;
            break;
        }
    }
    if (from < size)
        tw_strbuf_append(out, text + from, size - from);
}

/* Objects one after another, as lines or not. */
static enum tw_status take_objects(struct twp_reader *r, const char *text,
                                   size_t size, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    size_t at = strspn(text, " \t\r\n");
    while (status == TW_OK && at < size) {
        json_error_t error;
        json_t *root =
            json_loadb(text + at, size - at, JSON_DISABLE_EOF_CHECK, &error);
        if (!root)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: row %lld is no JSON: %s", r->path,
                                (long long)r->row + 1, error.text);
        json_t *history = json_object_get(root, "log_history");
        if (json_is_array(root))
            status = take_rows(r, root, err);
        else if (json_is_array(history))
            status = take_rows(r, history, err);
        else
            status = take_row(r, root, err);
        json_decref(root);
        at += (size_t)error.position;
        at += strspn(text + at, " \t\r\n");
    }
    return status;
}

enum tw_status twp_read_json(struct twp_reader *r, const char *text,
                             size_t size, struct tw_error *err)
{
    struct tw_strbuf plain = {0};
    put_plain(&plain, text, size);
    enum tw_status status =
        plain.is_failed
            ? tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", r->path)
            : take_objects(r, tw_strbuf_text(&plain), plain.length, err);
    tw_strbuf_fini(&plain);
    return status;
}
