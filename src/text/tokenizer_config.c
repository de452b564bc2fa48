/* What tokenizer_config.json and special_tokens_map.json say beside the
 * tokenizer itself: names of tokens, switches, tokens added later. */
#include <config.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_internal.h"

static enum tw_status read_optional(struct tw_tokenizer *tokenizer,
                                    const char *directory, const char *name,
                                    json_t **json, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    char *path = tw_path_join(directory, name);
    if (!path)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (access(path, F_OK) == 0)
        status = twp_json_read(tokenizer, path, json, err);
    tw_free(path);
    return status;
}

enum tw_status twp_config_read(struct tw_tokenizer *tokenizer,
                               const char *directory, struct twp_config *config,
                               struct tw_error *err)
{
    enum tw_status status = read_optional(
        tokenizer, directory, "tokenizer_config.json", &config->config, err);
    if (status == TW_OK)
        status = read_optional(tokenizer, directory, "special_tokens_map.json",
                               &config->map, err);
    return status;
}

void twp_config_fini(struct twp_config *config)
{
    json_decref(config->config);
    json_decref(config->map);
    *config = (struct twp_config){0};
}

/* A name, or an object with one. */
static const char *token_name(const json_t *json, const char *key)
{
    const json_t *token = json_object_get(json, key);
    const json_t *content = json_object_get(token, "content");
    return json_string_value(content ? content : token);
}

const char *twp_config_token(const struct twp_config *config, const char *key)
{
    const char *name = token_name(config->config, key);
    return name ? name : token_name(config->map, key);
}

bool twp_config_flag(const struct twp_config *config, const char *key)
{
    return json_is_true(json_object_get(config->config, key));
}

/* The id that a key of added_tokens_decoder is, -1: none. */
static json_int_t key_id(const char *key)
{
    size_t digits = strspn(key, "0123456789");
    return digits > 0 && digits < 10 && !key[digits] ? atol(key) : -1;
}

/* A copy with its id; it is looked for in the text as it stands. */
static int append_added(json_t *list, const char *key, json_t *token)
{
    json_t *copy = json_copy(token);
    if (!copy || json_object_set_new(copy, "id", json_integer(key_id(key))) ||
        json_object_set_new(copy, "normalized", json_false())) {
        json_decref(copy);
        return -1;
    }
    return json_array_append_new(list, copy);
}

enum tw_status twp_config_added(const struct twp_config *config, json_t **added,
                                struct tw_error *err)
{
    json_t *decoder = json_object_get(config->config, "added_tokens_decoder");
    json_t *token;
    const char *key;
    *added = json_array();
    if (!*added)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    json_object_foreach(decoder, key, token)
    {
        if (!json_is_object(token) || key_id(key) < 0)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "tokenizer_config.json: added token '%.60s' "
                                "is no object, or its id no number",
                                key);
        if (append_added(*added, key, token) != 0)
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    return TW_OK;
}
