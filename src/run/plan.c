/* Plans to text and back. */
#include <config.h>

#include "run/plan.h"

#include <jansson.h>
#include <string.h>

static const char *const paths[] = {
    [TW_FFN_TWELL] = "twell", [TW_FFN_DENSE] = "dense"};

void tw_plan_write(const struct tw_plan_subject *subject,
                   const struct tw_ffn_plan *plans, struct tw_strbuf *out)
{
    tw_strbuf_printf(
        out, "{\"model_hash\":\"%s\",\"backend\":\"%s\",\"types\":\"%s\",",
        subject->model_hash, subject->backend, subject->types);
    tw_strbuf_puts(out, "\"layers\":[");
    for (int64_t l = 0; l < subject->layers; l++) {
        tw_strbuf_printf(out, "%s{\"path\":\"%s\"", l ? "," : "",
                         paths[plans[l].path]);
        if (plans[l].path == TW_FFN_TWELL &&
            plans[l].row_limit != TW_NO_ROW_LIMIT)
            tw_strbuf_printf(out, ",\"row_limit\":%lld",
                             (long long)plans[l].row_limit);
        tw_strbuf_puts(out, "}");
    }
    tw_strbuf_puts(out, "]}");
}

/* A text field that must read so. */
static enum tw_status check_field(const json_t *root, const char *field,
                                  const char *wanted, const char *name,
                                  struct tw_error *err)
{
    const char *text = json_string_value(json_object_get(root, field));
    if (!text)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no plan: text field '%s' is missing", name,
                            field);
    if (strcmp(text, wanted) != 0)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "%s: plan with %s '%.80s', this is '%s'", name,
                            field, text, wanted);
    return TW_OK;
}

/* An integer field, or `otherwise` where it is absent. */
static bool read_int(const json_t *object, const char *field, int64_t otherwise,
                     int64_t *value)
{
    const json_t *found = json_object_get(object, field);
    if (found && !json_is_integer(found))
        return false;
    *value = found ? (int64_t)json_integer_value(found) : otherwise;
    return *value >= 0 && *value <= TW_NO_ROW_LIMIT;
}

static enum tw_status read_layer(const json_t *layer, const char *name,
                                 int64_t number, struct tw_ffn_plan *plan,
                                 struct tw_error *err)
{
    const char *path = json_string_value(json_object_get(layer, "path"));
    int64_t hot, row_limit;
    bool is_dense = path && strcmp(path, paths[TW_FFN_DENSE]) == 0;
    if (!path || (!is_dense && strcmp(path, paths[TW_FFN_TWELL]) != 0))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: layer %lld: path is neither twell nor dense",
                            name, (long long)number);
    if (!read_int(layer, "row_limit", TW_NO_ROW_LIMIT, &row_limit) ||
        !read_int(layer, "hot", 0, &hot))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: layer %lld: row_limit and hot are numbers "
                            "from 0",
                            name, (long long)number);
    if (hot > 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: layer %lld: hot neurons are not supported",
                            name, (long long)number);
    plan->path = is_dense ? TW_FFN_DENSE : TW_FFN_TWELL;
    plan->row_limit = is_dense ? TW_NO_ROW_LIMIT : row_limit;
    return TW_OK;
}

static enum tw_status read_plan(const json_t *root, const char *name,
                                const struct tw_plan_subject *subject,
                                struct tw_ffn_plan *plans, struct tw_error *err)
{
    enum tw_status status =
        check_field(root, "model_hash", subject->model_hash, name, err);
    if (status == TW_OK)
        status = check_field(root, "backend", subject->backend, name, err);
    if (status == TW_OK)
        status = check_field(root, "types", subject->types, name, err);
    const json_t *layers = json_object_get(root, "layers");
    if (status == TW_OK && (int64_t)json_array_size(layers) != subject->layers)
        status = tw_error_set(err, TW_ERR_MISMATCH,
                              "%s: plan of %lld layers, the model has %lld",
                              name, (long long)json_array_size(layers),
                              (long long)subject->layers);
    for (int64_t l = 0; l < subject->layers && status == TW_OK; l++)
        status = read_layer(json_array_get(layers, (size_t)l), name, l,
                            &plans[l], err);
    return status;
}

enum tw_status tw_plan_read(const char *text, const char *name,
                            const struct tw_plan_subject *subject,
                            struct tw_ffn_plan *plans, struct tw_error *err)
{
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    enum tw_status status =
        json_is_object(root)
            ? read_plan(root, name, subject, plans, err)
            : tw_error_set(err, TW_ERR_FORMAT, "%s: no plan: %s", name,
                           root ? "not a JSON object" : where.text);
    json_decref(root);
    return status;
}
