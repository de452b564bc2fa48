/* Opens a tokenizer's directory: its files, its hash, and what the files
 * beside them say about the first and the last token of a text. */
#include <config.h>

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_internal.h"

static enum tw_status parse(const char *path, const char *text, size_t size,
                            json_t **json, struct tw_error *err)
{
    json_error_t error;
    *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (*json)
        return TW_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    return tw_error_set(err, TW_ERR_FORMAT, "%s: line %d: %.160s", path,
                        error.line, error.text);
}

enum tw_status twp_json_read(struct tw_tokenizer *tokenizer, const char *path,
                             json_t **json, struct tw_error *err)
{
    char *text = NULL;
    size_t size = 0;
    enum tw_status status =
        tw_file_read(path, TWP_FILE_LIMIT, &text, &size, err);
    if (status != TW_OK)
        return status;
    tw_sha256_update(&tokenizer->hasher, text, size);
    status = parse(path, text, size, json, err);
    tw_free(text);
    return status;
}

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
                               const char *directory,
                               struct twp_config *config, struct tw_error *err)
{
    enum tw_status status =
        read_optional(tokenizer, directory, "tokenizer_config.json",
                      &config->config, err);
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

/* A template's BOS stands; else add_bos_token asks for it. */
static void choose_ends(struct tw_tokenizer *tokenizer,
                        const struct twp_config *config)
{
    static const char *const names[] = {"<|endoftext|>", "</s>",
                                        "<|end_of_text|>"};
    const char *bos = twp_config_token(config, "bos_token");
    const char *eos = twp_config_token(config, "eos_token");
    if (tokenizer->bos < 0 && bos && twp_config_flag(config, "add_bos_token"))
        tokenizer->bos = tw_tokenizer_find(tokenizer, bos);
    if (eos)
        tokenizer->eos = tw_tokenizer_find(tokenizer, eos);
    for (int i = 0; tokenizer->eos < 0 && i < 3; i++)
        tokenizer->eos = tw_tokenizer_find(tokenizer, names[i]);
}

static enum tw_status read_json_form(struct tw_tokenizer *tokenizer,
                                     const char *path, struct tw_error *err)
{
    json_t *json = NULL;
    enum tw_status status = twp_json_read(tokenizer, path, &json, err);
    if (status != TW_OK)
        return status;
    status = twp_tokenizer_json(tokenizer, json, err);
    if (status != TW_OK)
        tw_error_prefix(err, "%s", path);
    json_decref(json);
    return status;
}

/* The hash is that of the files in the order they are read here. */
static enum tw_status read_all(struct tw_tokenizer *tokenizer,
                               const char *directory, const char *path,
                               struct tw_error *err)
{
    struct twp_config config = {0};
    tw_sha256_init(&tokenizer->hasher);
    enum tw_status status =
        twp_config_read(tokenizer, directory, &config, err);
    if (status == TW_OK && access(path, F_OK) == 0)
        status = read_json_form(tokenizer, path, err);
    else if (status == TW_OK)
        status = twp_tokenizer_gpt2(tokenizer, directory, &config, err);
    if (status == TW_OK)
        choose_ends(tokenizer, &config);
    twp_config_fini(&config);
    tw_sha256_hex(&tokenizer->hasher, tokenizer->hash);
    return status;
}

enum tw_status tw_tokenizer_open(const char *directory,
                                 struct tw_tokenizer **out,
                                 struct tw_error *err)
{
    char *path = tw_path_join(directory, "tokenizer.json");
    struct tw_tokenizer *tokenizer = tw_calloc(1, sizeof *tokenizer);
    enum tw_status status = TW_OK;
    if (tokenizer)
        tokenizer->cache = twp_cache_create();
    if (!path || !tokenizer || !tokenizer->cache) {
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                              directory);
    } else {
        tokenizer->bos = tokenizer->eos = -1;
        status = read_all(tokenizer, directory, path, err);
    }
    tw_free(path);
    if (status == TW_OK)
        *out = tokenizer;
    else
        tw_tokenizer_close(tokenizer);
    return status;
}

void tw_tokenizer_close(struct tw_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    twp_strings_fini(&tokenizer->tokens);
    twp_strings_fini(&tokenizer->words);
    tw_strbuf_fini(&tokenizer->bytes);
    tw_free(tokenizer->piece);
    twp_added_fini(&tokenizer->raw);
    twp_added_fini(&tokenizer->normalized);
    twp_regex_destroy(tokenizer->word_char);
    twp_regex_destroy(tokenizer->space);
    twp_stages_fini(&tokenizer->stages);
    twp_bpe_fini(&tokenizer->bpe);
    twp_cache_destroy(tokenizer->cache);
    tw_free(tokenizer);
}
