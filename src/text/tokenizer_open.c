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

void twp_default_eos(struct tw_tokenizer *tokenizer)
{
    static const char *const names[] = {"<|endoftext|>", "</s>",
                                        "<|end_of_text|>"};
    for (int i = 0; tokenizer->eos < 0 && i < 3; i++)
        tokenizer->eos = tw_tokenizer_find(tokenizer, names[i]);
}

/* A template's BOS stands; else add_bos_token asks for it. The names of the
 * config go before those of a tokenizer.model. */
static void choose_ends(struct tw_tokenizer *tokenizer,
                        const struct twp_config *config)
{
    const char *bos = twp_config_token(config, "bos_token");
    const char *eos = twp_config_token(config, "eos_token");
    if (tokenizer->bos < 0 && bos && twp_config_flag(config, "add_bos_token"))
        tokenizer->bos = tw_tokenizer_find(tokenizer, bos);
    if (eos)
        tokenizer->eos = tw_tokenizer_find(tokenizer, eos);
    twp_default_eos(tokenizer);
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

/* tokenizer.json (path), else tokenizer.model, else GPT-2's two files. */
static enum tw_status read_form(struct tw_tokenizer *tokenizer,
                                const char *directory, const char *path,
                                const struct twp_config *config,
                                struct tw_error *err)
{
    char *model = tw_path_join(directory, "tokenizer.model");
    enum tw_status status;
    if (!model)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (access(path, F_OK) == 0)
        status = read_json_form(tokenizer, path, err);
    else if (access(model, F_OK) == 0)
        status = twp_tokenizer_model(tokenizer, model, config, err);
    else
        status = twp_tokenizer_gpt2(tokenizer, directory, config, err);
    tw_free(model);
    return status;
}

/* The hash is that of the files in the order they are read here. */
static enum tw_status read_all(struct tw_tokenizer *tokenizer,
                               const char *directory, const char *path,
                               struct tw_error *err)
{
    struct twp_config config = {0};
    enum tw_status status = twp_config_read(tokenizer, directory, &config, err);
    if (status == TW_OK)
        status = read_form(tokenizer, directory, path, &config, err);
    if (status == TW_OK)
        choose_ends(tokenizer, &config);
    twp_config_fini(&config);
    tw_sha256_hex(&tokenizer->hasher, tokenizer->hash);
    return status;
}

struct tw_tokenizer *twp_tokenizer_create(void)
{
    struct tw_tokenizer *tokenizer = tw_calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return NULL;
    tokenizer->cache = twp_cache_create();
    tokenizer->bos = tokenizer->eos = tokenizer->bpe.unknown = -1;
    tw_sha256_init(&tokenizer->hasher);
    if (tokenizer->cache)
        return tokenizer;
    tw_free(tokenizer);
    return NULL;
}

enum tw_status tw_tokenizer_open(const char *directory,
                                 struct tw_tokenizer **out,
                                 struct tw_error *err)
{
    char *path = tw_path_join(directory, "tokenizer.json");
    struct tw_tokenizer *tokenizer = twp_tokenizer_create();
    enum tw_status status;
    if (!path || !tokenizer)
        status =
            tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", directory);
    else
        status = read_all(tokenizer, directory, path, err);
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
    twp_normalizer_fini(&tokenizer->normalizer);
    twp_characters_destroy(tokenizer->characters);
    twp_cache_destroy(tokenizer->cache);
    tw_free(tokenizer);
}
