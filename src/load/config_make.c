/* Configs of checkpoints that have no config.json: fields put one by one, each
 * with the place it came from. */
#include <config.h>

#include <string.h>

#include "base/memory.h"
#include "load/config_internal.h"

static enum tw_status no_memory(const char *file, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", file);
}

enum tw_status twp_config_create(const char *file, struct tw_config **out,
                                 struct tw_error *err)
{
    struct tw_config *config = tw_calloc(1, sizeof *config);
    if (!config)
        return no_memory(file, err);
    config->file = tw_strdup(file);
    config->root = json_object();
    config->used = json_object();
    config->origins = json_object();
    if (!config->file || !config->root || !config->used || !config->origins) {
        tw_config_close(config);
        return no_memory(file, err);
    }
    *out = config;
    return TW_OK;
}

/* Adds to the origins of a top-level field. */
static int put_origin(struct tw_config *config, const char *top,
                      const char *origin)
{
    const char *had = json_string_value(json_object_get(config->origins, top));
    json_t *text;
    if (had && strstr(had, origin))
        return 0;
    text = had ? json_sprintf("%s, %s", had, origin) : json_string(origin);
    return json_object_set_new(config->origins, top, text);
}

enum tw_status twp_config_put(struct tw_config *config, const char *field,
                              json_t *value, const char *origin,
                              struct tw_error *err)
{
    const char *dot = strchr(field, '.');
    char top[64];
    size_t length = dot ? (size_t)(dot - field) : strlen(field);
    if (length >= sizeof top || !value) {
        json_decref(value);
        return no_memory(config->file, err);
    }
    memcpy(top, field, length);
    top[length] = '\0';
    json_t *object = config->root;
    if (dot) {
        object = json_object_get(config->root, top);
        if (!object) {
            object = json_object();
            if (json_object_set_new(config->root, top, object) != 0)
                object = NULL;
        }
    }
    if (json_object_set_new(object, dot ? dot + 1 : top, value) != 0 ||
        put_origin(config, top, origin) != 0)
        return no_memory(config->file, err);
    return TW_OK;
}

const char *tw_config_origin(const struct tw_config *config, const char *field)
{
    return json_string_value(json_object_get(config->origins, field));
}

const char *tw_config_file(const struct tw_config *config)
{
    return config->file;
}
