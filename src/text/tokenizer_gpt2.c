/* GPT-2's own form: vocab.json, merges.txt, and the names of the special
 * tokens in tokenizer_config.json or special_tokens_map.json. */
#include <config.h>

#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_internal.h"

static enum tw_status read_line(struct tw_tokenizer *tokenizer,
                                const char *line, size_t size, uint32_t *rank,
                                struct tw_error *err)
{
    if (size > 0 && line[size - 1] == '\r')
        size--;
    if (size == 0 || (size >= 8 && memcmp(line, "#version", 8) == 0))
        return TW_OK;
    const char *space = memchr(line, ' ', size);
    size_t left = space ? (size_t)(space - line) : size;
    if (!space || memchr(space + 1, ' ', size - left - 1))
        return tw_error_set(err, TW_ERR_FORMAT, "merge %lu is not two tokens",
                            (unsigned long)*rank);
    return twp_vocab_merge(tokenizer, line, left, space + 1, size - left - 1,
                           (*rank)++, err);
}

static enum tw_status read_lines(struct tw_tokenizer *tokenizer,
                                 const char *text, size_t size,
                                 struct tw_error *err)
{
    uint32_t rank = 0;
    if (twp_utf8_check(text, size) != size)
        return tw_error_set(err, TW_ERR_FORMAT, "invalid UTF-8 at byte %zu",
                            twp_utf8_check(text, size));
    enum tw_status status = twp_bpe_create(&tokenizer->bpe, err);
    for (size_t at = 0; status == TW_OK && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        status = read_line(tokenizer, text + at, length, &rank, err);
        at += length + 1;
    }
    return status;
}

static enum tw_status read_merges(struct tw_tokenizer *tokenizer,
                                  const char *path, struct tw_error *err)
{
    char *text = NULL;
    size_t size = 0;
    enum tw_status status =
        tw_file_read(path, TWP_FILE_LIMIT, &text, &size, err);
    if (status != TW_OK)
        return status;
    tw_sha256_update(&tokenizer->hasher, text, size);
    status = read_lines(tokenizer, text, size, err);
    if (status != TW_OK)
        tw_error_prefix(err, "%s", path);
    tw_free(text);
    return status;
}

/* Adds {"id", "content", "special"} for every name that is in the
 * vocabulary; -1 without memory. */
static int add_named(const struct twp_config *config, const json_t *vocab,
                     json_t *list)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token",
                                       "pad_token", NULL};
    for (int i = 0; i < 5; i++) {
        const char *name =
            keys[i] ? twp_config_token(config, keys[i]) : "<|endoftext|>";
        json_t *id = name ? json_object_get(vocab, name) : NULL;
        if (id && json_array_append_new(list, json_pack("{s:O,s:s,s:b}", "id",
                                                        id, "content", name,
                                                        "special", 1)) != 0)
            return -1;
    }
    return 0;
}

static enum tw_status read_vocab(struct tw_tokenizer *tokenizer,
                                 const struct twp_config *config,
                                 const char *path, struct tw_error *err)
{
    json_t *vocab = NULL;
    enum tw_status status = twp_json_read(tokenizer, path, &vocab, err);
    if (status != TW_OK)
        return status;
    json_t *added = NULL;
    status = twp_config_added(config, &added, err);
    if (status == TW_OK && add_named(config, vocab, added) != 0)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status == TW_OK)
        status = twp_tokens_read(tokenizer, vocab, added, err);
    if (status != TW_OK)
        tw_error_prefix(err, "%s", path);
    json_decref(added);
    json_decref(vocab);
    return status;
}

enum tw_status twp_tokenizer_gpt2(struct tw_tokenizer *tokenizer,
                                  const char *directory,
                                  const struct twp_config *config,
                                  struct tw_error *err)
{
    char *vocab = tw_path_join(directory, "vocab.json");
    char *merges = tw_path_join(directory, "merges.txt");
    enum tw_status status = TW_OK;
    if (!vocab || !merges)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (access(vocab, F_OK) != 0 || access(merges, F_OK) != 0)
        status = tw_error_set(err, TW_ERR_NOT_FOUND,
                              "%s: no tokenizer (tokenizer.json, "
                              "tokenizer.model, or vocab.json with "
                              "merges.txt)",
                              directory);
    if (status == TW_OK)
        status = read_vocab(tokenizer, config, vocab, err);
    if (status == TW_OK)
        status = read_merges(tokenizer, merges, err);
    if (status == TW_OK)
        status = twp_stages_gpt2(twp_config_flag(config, "add_prefix_space"),
                                 &tokenizer->stages, err);
    tw_free(vocab);
    tw_free(merges);
    return status;
}
