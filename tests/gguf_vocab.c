/* A GGUF file's metadata, as far as tokenizer.ggml.* goes: key, type, value,
 * one behind the other. */
#include <config.h>

#include "gguf_vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct cursor {
    const char *at, *end;
};

static uint64_t number(struct cursor *cursor, size_t size)
{
    uint64_t value = 0;
    if ((size_t)(cursor->end - cursor->at) < size)
        abort();
    memcpy(&value, cursor->at, size);
    cursor->at += size;
    return value;
}

static struct tw_vocab_text text(struct cursor *cursor)
{
    struct tw_vocab_text value = {NULL, (size_t)number(cursor, 8)};
    if ((size_t)(cursor->end - cursor->at) < value.size)
        abort();
    value.bytes = cursor->at;
    cursor->at += value.size;
    return value;
}

static bool is_key(struct tw_vocab_text key, const char *name)
{
    static const char prefix[] = "tokenizer.ggml.";
    size_t length = sizeof prefix - 1;
    return key.size == length + strlen(name) &&
           memcmp(key.bytes, prefix, length) == 0 &&
           memcmp(key.bytes + length, name, strlen(name)) == 0;
}

static void take_number(struct gguf_vocab *gguf, struct tw_vocab_text key,
                        uint64_t value)
{
    struct tw_vocab *vocab = &gguf->vocab;
    const struct {
        const char *name;
        int32_t *id;
        enum tw_vocab_switch *given;
    } keys[] = {{"bos_token_id", &vocab->bos, NULL},
                {"eos_token_id", &vocab->eos, NULL},
                {"unknown_token_id", &vocab->unk, NULL},
                {"padding_token_id", &vocab->pad, NULL},
                {"add_bos_token", NULL, &vocab->add_bos},
                {"add_eos_token", NULL, &vocab->add_eos},
                {"add_space_prefix", NULL, &vocab->add_space_prefix}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (is_key(key, keys[i].name) && keys[i].id)
            *keys[i].id = (int32_t)value;
        else if (is_key(key, keys[i].name))
            *keys[i].given = value ? TW_VOCAB_YES : TW_VOCAB_NO;
    }
}

static void *copy(struct cursor *cursor, size_t count, size_t size)
{
    void *values = tw_alloc(count, size);
    memcpy(values, cursor->at, count * size);
    cursor->at += count * size;
    return values;
}

static void take_array(struct gguf_vocab *gguf, struct tw_vocab_text key,
                       struct cursor *cursor)
{
    uint32_t type = (uint32_t)number(cursor, 4);
    size_t count = (size_t)number(cursor, 8);
    if (type == STRING) {
        struct tw_vocab_text *texts = tw_alloc(count, sizeof *texts);
        for (size_t i = 0; i < count; i++)
            texts[i] = text(cursor);
        if (is_key(key, "tokens")) {
            gguf->vocab.piece = gguf->piece = texts;
            gguf->vocab.pieces = (int64_t)count;
        } else if (is_key(key, "merges")) {
            gguf->vocab.merge = gguf->merge = texts;
            gguf->vocab.merges = (int64_t)count;
        } else {
            tw_free(texts);
        }
    } else if (is_key(key, "scores")) {
        gguf->vocab.score = gguf->score = copy(cursor, count, 4);
    } else if (is_key(key, "token_type")) {
        gguf->vocab.type = gguf->type = copy(cursor, count, 4);
    } else {
        cursor->at += count * sizes[type];
    }
}

static void take(struct gguf_vocab *gguf, struct cursor *cursor)
{
    struct tw_vocab_text key = text(cursor);
    uint32_t type = (uint32_t)number(cursor, 4);
    if (type == STRING) {
        struct tw_vocab_text value = text(cursor);
        if (is_key(key, "model"))
            gguf->vocab.model = gguf->model =
                tw_strndup(value.bytes, value.size);
        if (is_key(key, "pre"))
            gguf->vocab.pre = gguf->pre = tw_strndup(value.bytes, value.size);
    } else if (type == ARRAY) {
        take_array(gguf, key, cursor);
    } else {
        take_number(gguf, key, number(cursor, sizes[type]));
    }
}

bool gguf_vocab_read(const char *path, struct gguf_vocab *gguf)
{
    struct tw_error err = {0};
    size_t size;
    *gguf = (struct gguf_vocab){.vocab = TW_VOCAB_INIT};
    if (tw_file_read(path, (size_t)1 << 28, &gguf->file, &size, &err) !=
            TW_OK ||
        size < 24 || memcmp(gguf->file, "GGUF", 4) != 0)
        return false;
    struct cursor cursor = {gguf->file + 16, gguf->file + size};
    for (uint64_t keys = number(&cursor, 8); keys > 0; keys--)
        take(gguf, &cursor);
    return true;
}

void gguf_vocab_fini(struct gguf_vocab *gguf)
{
    tw_free(gguf->file);
    tw_free(gguf->model);
    tw_free(gguf->pre);
    tw_free(gguf->piece);
    tw_free(gguf->merge);
    tw_free(gguf->score);
    tw_free(gguf->type);
}
