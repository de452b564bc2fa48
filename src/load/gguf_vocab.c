/* The vocabulary that a GGUF file holds, as plain arrays. Their memory is the
 * first file's arena's: about what the file itself spends on them. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "load/gguf_internal.h"

#define PREFIX "tokenizer.ggml."

static enum tw_status wrong(const struct twp_gguf_file *file, const char *key,
                            const char *wanted, struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: key '%s' is not %s",
                        file->name, key, wanted);
}

/* A text as a string; absent: *text is NULL. */
static enum tw_status take_text(struct twp_gguf_file *file, const char *key,
                                const char **text, struct tw_error *err)
{
    const char *bytes;
    size_t size;
    const struct twp_gguf_value *value = twp_gguf_find(file, key);
    *text = NULL;
    if (!value)
        return TW_OK;
    if (!twp_gguf_text(value, &bytes, &size) || memchr(bytes, 0, size))
        return wrong(file, key, "a text", err);
    return twp_arena_text(&file->arena, bytes, size, text, err);
}

/* An array of texts; absent: *count is 0. */
static enum tw_status take_texts(struct twp_gguf_file *file, const char *key,
                                 const struct tw_vocab_text **texts,
                                 int64_t *count, struct tw_error *err)
{
    struct tw_vocab_text *list = NULL;
    const struct twp_gguf_value *value = twp_gguf_find(file, key);
    *texts = NULL;
    *count = 0;
    if (!value)
        return TW_OK;
    if (value->kind != TWP_GGUF_ARRAY || value->item != TWP_GGUF_TEXT)
        return wrong(file, key, "an array of texts", err);
    enum tw_status status = twp_arena_get(&file->arena, (size_t)value->count,
                                          sizeof *list, &list, err);
    if (status != TW_OK)
        return status;
    const uint8_t *at = value->data;
    for (uint64_t i = 0; i < value->count; i++)
        twp_gguf_next_text(&at, &list[i].bytes, &list[i].size);
    *texts = list;
    *count = (int64_t)value->count;
    return TW_OK;
}

/* An array of `pieces` numbers of 4 bytes, copied to aligned memory. */
static enum tw_status take_numbers(struct twp_gguf_file *file, const char *key,
                                   enum twp_gguf_kind kind, int64_t pieces,
                                   void *array, struct tw_error *err)
{
    void *copy = NULL;
    const struct twp_gguf_value *value = twp_gguf_find(file, key);
    if (!value)
        return TW_OK;
    if (value->kind != TWP_GGUF_ARRAY || value->item != kind ||
        value->count != (uint64_t)pieces)
        return wrong(file, key, "an array with a number for each token", err);
    enum tw_status status =
        twp_arena_get(&file->arena, (size_t)pieces, 4, &copy, err);
    if (status != TW_OK)
        return status;
    memcpy(copy, value->data, (size_t)pieces * 4);
    memcpy(array, &copy, sizeof copy);
    return TW_OK;
}

static enum tw_status take_ids(const struct twp_gguf_file *file,
                               struct tw_vocab *vocab, struct tw_error *err)
{
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {PREFIX "bos_token_id", &vocab->bos},
        {PREFIX "eos_token_id", &vocab->eos},
        {PREFIX "unknown_token_id", &vocab->unk},
        {PREFIX "padding_token_id", &vocab->pad},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int64_t number = -1;
        const struct twp_gguf_value *value = twp_gguf_find(file, ids[i].key);
        if (value && (!twp_gguf_int(value, &number) || number < 0 ||
                      number >= vocab->pieces))
            return wrong(file, ids[i].key, "the number of a token", err);
        *ids[i].id = (int32_t)number;
    }
    return TW_OK;
}

static enum tw_status take_switches(const struct twp_gguf_file *file,
                                    struct tw_vocab *vocab,
                                    struct tw_error *err)
{
    const struct {
        const char *key;
        enum tw_vocab_switch *is_on;
    } switches[] = {
        {PREFIX "add_bos_token", &vocab->add_bos},
        {PREFIX "add_eos_token", &vocab->add_eos},
        {PREFIX "add_space_prefix", &vocab->add_space_prefix},
        {PREFIX "remove_extra_whitespaces", &vocab->remove_extra_whitespaces},
    };
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool is_true;
        const struct twp_gguf_value *value =
            twp_gguf_find(file, switches[i].key);
        if (!value)
            continue;
        if (!twp_gguf_bool(value, &is_true))
            return wrong(file, switches[i].key, "true or false", err);
        *switches[i].is_on = is_true ? TW_VOCAB_YES : TW_VOCAB_NO;
    }
    return TW_OK;
}

enum tw_status tw_gguf_vocab(struct tw_gguf *gguf, struct tw_vocab *out,
                             struct tw_error *err)
{
    struct twp_gguf_file *file = &gguf->file[0];
    struct tw_vocab vocab = TW_VOCAB_INIT;
    enum tw_status status = take_text(file, PREFIX "model", &vocab.model, err);
    if (status == TW_OK && !vocab.model)
        return tw_error_set(err, TW_ERR_NOT_FOUND,
                            "%s: holds no tokenizer (no key " PREFIX
                            "model); --tokenizer DIR names another one",
                            file->name);
    if (status == TW_OK)
        status = take_text(file, PREFIX "pre", &vocab.pre, err);
    if (status == TW_OK)
        status =
            take_texts(file, PREFIX "tokens", &vocab.piece, &vocab.pieces, err);
    if (status == TW_OK && (vocab.pieces < 1 || vocab.pieces > INT32_MAX))
        status = wrong(file, PREFIX "tokens", "there, or absurd", err);
    if (status == TW_OK)
        status =
            take_texts(file, PREFIX "merges", &vocab.merge, &vocab.merges, err);
    if (status == TW_OK)
        status = take_numbers(file, PREFIX "scores", TWP_GGUF_F32, vocab.pieces,
                              &vocab.score, err);
    if (status == TW_OK)
        status = take_numbers(file, PREFIX "token_type", TWP_GGUF_I32,
                              vocab.pieces, &vocab.type, err);
    if (status == TW_OK)
        status = take_ids(file, &vocab, err);
    if (status == TW_OK)
        status = take_switches(file, &vocab, err);
    if (status == TW_OK)
        *out = vocab;
    return status;
}
