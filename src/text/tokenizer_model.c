/* Reads tokenizer.model, SentencePiece's ModelProto, of the byte-pair kind.
 * Pieces are borrowed from the file's bytes. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_internal.h"
#include "text/vocab.h"

/* A piece of one byte: tag, length, tag, length, byte. */
#define PIECE_FIELD_MIN 3

struct model {
    struct tw_vocab vocab;
    struct tw_vocab_text *piece;
    float *score;
    int32_t *type;
    int64_t capacity;
    uint64_t kind;              /* TrainerSpec.model_type */
    bool is_suffix;             /* treat_whitespace_as_suffix */
    bool is_unescaped;          /* escape_whitespaces is off */
    bool has_charsmap;          /* the normalizer rewrites characters */
    struct twp_wire normalizer; /* its name */
    struct twp_wire bos, eos, unk, pad;
};

static bool is_text(const struct twp_field *field)
{
    return field->type == TWP_WIRE_BYTES;
}

/* --- Messages --- */

typedef void take_fn(struct model *model, const struct twp_field *field);

static void take_trainer(struct model *model, const struct twp_field *field)
{
    const struct {
        uint32_t number;
        struct twp_wire *text;
    } texts[] = {{45, &model->unk},
                 {46, &model->bos},
                 {47, &model->eos},
                 {48, &model->pad}};
    if (field->number == 3 && !is_text(field))
        model->kind = field->value;
    if (field->number == 24)
        model->is_suffix = field->value != 0;
    for (int i = 0; i < 4; i++)
        if (field->number == texts[i].number && is_text(field))
            *texts[i].text = field->bytes;
}

static void take_normalizer(struct model *model, const struct twp_field *field)
{
    enum tw_vocab_switch given = field->value ? TW_VOCAB_YES : TW_VOCAB_NO;
    if (field->number == 1 && is_text(field))
        model->normalizer = field->bytes;
    if (field->number == 2 || field->number == 6)
        model->has_charsmap |= field->value > 0;
    if (field->number == 3)
        model->vocab.add_space_prefix = given;
    if (field->number == 4)
        model->vocab.remove_extra_whitespaces = given;
    if (field->number == 5)
        model->is_unescaped = field->value == 0;
}

static void take_piece(struct model *model, const struct twp_field *field)
{
    int64_t at = model->vocab.pieces;
    uint32_t bits = (uint32_t)field->value;
    if (field->number == 1 && is_text(field))
        model->piece[at] = (struct tw_vocab_text){
            (const char *)field->bytes.at,
            (size_t)(field->bytes.end - field->bytes.at)};
    if (field->number == 2 && field->type == TWP_WIRE_FIXED32)
        memcpy(&model->score[at], &bits, sizeof bits);
    if (field->number == 3 && field->value <= INT32_MAX)
        model->type[at] = (int32_t)field->value;
}

static enum tw_status read_message(struct model *model, struct twp_wire wire,
                                   take_fn *take, struct tw_error *err)
{
    struct twp_field field;
    bool is_there = true;
    for (;;) {
        enum tw_status status = twp_wire_next(&wire, &field, &is_there, err);
        if (status != TW_OK || !is_there)
            return status;
        take(model, &field);
    }
}

static enum tw_status read_piece(struct model *model, struct twp_wire wire,
                                 struct tw_error *err)
{
    int64_t at = model->vocab.pieces;
    model->piece[at] = (struct tw_vocab_text){"", 0};
    model->score[at] = 0;
    model->type[at] = TW_VOCAB_NORMAL;
    enum tw_status status = read_message(model, wire, take_piece, err);
    if (status == TW_OK && model->piece[at].size == 0)
        status = tw_error_set(err, TW_ERR_FORMAT, "piece %lld is empty",
                              (long long)at);
    model->vocab.pieces++;
    return status;
}

/* Every field of the file; pieces are counted first, then read. */
static enum tw_status count_pieces(struct twp_wire wire, int64_t *count,
                                   struct tw_error *err)
{
    struct twp_field field;
    bool is_there = true;
    *count = 0;
    for (;;) {
        enum tw_status status = twp_wire_next(&wire, &field, &is_there, err);
        if (status != TW_OK || !is_there)
            return status;
        if (field.number != 1)
            continue;
        if (!is_text(&field) || field.value < PIECE_FIELD_MIN)
            return tw_error_set(err, TW_ERR_FORMAT, "piece %lld is empty",
                                (long long)*count);
        ++*count;
    }
}

static enum tw_status read_fields(struct model *model, struct twp_wire wire,
                                  struct tw_error *err)
{
    struct twp_field field;
    bool is_there = true;
    for (;;) {
        enum tw_status status = twp_wire_next(&wire, &field, &is_there, err);
        if (status != TW_OK || !is_there)
            return status;
        if (field.number == 1)
            status = read_piece(model, field.bytes, err);
        else if (field.number == 2 && is_text(&field))
            status = read_message(model, field.bytes, take_trainer, err);
        else if (field.number == 3 && is_text(&field))
            status = read_message(model, field.bytes, take_normalizer, err);
        if (status != TW_OK)
            return status;
    }
}

static enum tw_status read_model(struct model *model, struct twp_wire wire,
                                 struct tw_error *err)
{
    int64_t count;
    enum tw_status status = count_pieces(wire, &count, err);
    if (status != TW_OK)
        return status;
    if (count == 0)
        return tw_error_set(err, TW_ERR_FORMAT, "no pieces");
    model->piece = tw_alloc((size_t)count, sizeof *model->piece);
    model->score = tw_alloc((size_t)count, sizeof *model->score);
    model->type = tw_alloc((size_t)count, sizeof *model->type);
    if (!model->piece || !model->score || !model->type)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    status = read_fields(model, wire, err);
    model->vocab.piece = model->piece;
    model->vocab.score = model->score;
    model->vocab.type = model->type;
    return status;
}

/* --- What is made of it --- */

static enum tw_status check(const struct model *model, struct tw_error *err)
{
    static const char *const kinds[] = {"0", "unigram", "byte-pair", "word",
                                        "char"};
    struct twp_wire name = model->normalizer;
    if (model->kind != 2)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "SentencePiece model type '%s' (supported: "
                            "byte-pair)",
                            model->kind < 5 ? kinds[model->kind] : "unknown");
    if (model->has_charsmap)
        return tw_error_set(
            err, TW_ERR_UNSUPPORTED,
            "SentencePiece normalizer '%.*s' (supported: identity)",
            (int)(name.end - name.at > 60 ? 60 : name.end - name.at),
            name.at ? (const char *)name.at : "");
    if (model->is_suffix || model->is_unescaped)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "SentencePiece option %s",
                            model->is_suffix ? "treat_whitespace_as_suffix"
                                             : "escape_whitespaces=false");
    return TW_OK;
}

/* The control or unknown piece of that name, -1: there is none. */
static int32_t find_piece(const struct model *model, struct twp_wire name,
                          const char *usual, enum tw_vocab_type type)
{
    size_t size = name.at ? (size_t)(name.end - name.at) : strlen(usual);
    const void *bytes = name.at ? (const void *)name.at : usual;
    for (int32_t i = 0; i < model->vocab.pieces; i++)
        if (model->type[i] == (int32_t)type && model->piece[i].size == size &&
            memcmp(model->piece[i].bytes, bytes, size) == 0)
            return i;
    return -1;
}

/* The config's switches win; without them a BOS comes first, as the families
 * with such files have it. */
static void take_config(struct model *model, const struct twp_config *config)
{
    struct tw_vocab *vocab = &model->vocab;
    const json_t *bos = json_object_get(config->config, "add_bos_token");
    const json_t *space = json_object_get(config->config, "add_prefix_space");
    vocab->unk = find_piece(model, model->unk, "<unk>", TW_VOCAB_UNKNOWN);
    vocab->bos = find_piece(model, model->bos, "<s>", TW_VOCAB_CONTROL);
    vocab->eos = find_piece(model, model->eos, "</s>", TW_VOCAB_CONTROL);
    vocab->pad = find_piece(model, model->pad, "<pad>", TW_VOCAB_CONTROL);
    if (json_is_false(bos) || vocab->bos < 0)
        vocab->add_bos = TW_VOCAB_NO;
    if (json_is_false(space))
        vocab->add_space_prefix = TW_VOCAB_NO;
    if (vocab->remove_extra_whitespaces == TW_VOCAB_UNSET)
        vocab->remove_extra_whitespaces = TW_VOCAB_YES;
}

/* The added space: once a text, or with the old ("legacy") code once more
 * behind every added token. */
static void set_prefix_rule(struct tw_tokenizer *tokenizer,
                            const struct twp_config *config)
{
    bool is_legacy = twp_config_flag(config, "legacy");
    for (size_t i = 0; i < tokenizer->normalizer.count; i++)
        tokenizer->normalizer.step[i].is_only_first = !is_legacy;
}

static enum tw_status build(struct tw_tokenizer *tokenizer,
                            struct twp_wire wire,
                            const struct twp_config *config,
                            struct tw_error *err)
{
    struct model model = {.vocab = TW_VOCAB_INIT, .kind = 1};
    json_t *added = NULL;
    struct twp_build how = {.is_user_defined_behind = true};
    model.vocab.model = "llama";
    enum tw_status status = read_model(&model, wire, err);
    if (status == TW_OK)
        status = check(&model, err);
    if (status == TW_OK)
        status = twp_config_added(config, &added, err);
    if (status == TW_OK)
        status =
            twp_tokens_size(NULL, model.vocab.pieces, added, &how.size, err);
    if (status == TW_OK) {
        take_config(&model, config);
        status = twp_vocab_build(tokenizer, &model.vocab, &how, err);
    }
    if (status == TW_OK)
        status = twp_tokens_add(tokenizer, added, err);
    set_prefix_rule(tokenizer, config);
    json_decref(added);
    tw_free(model.piece);
    tw_free(model.score);
    tw_free(model.type);
    return status;
}

enum tw_status twp_tokenizer_model(struct tw_tokenizer *tokenizer,
                                   const char *path,
                                   const struct twp_config *config,
                                   struct tw_error *err)
{
    struct tw_file file;
    enum tw_status status = tw_file_map(path, &file, err);
    if (status != TW_OK)
        return status;
    if (file.size == 0)
        status = tw_error_set(err, TW_ERR_FORMAT, "no pieces");
    if (file.size > TWP_FILE_LIMIT)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%zu bytes, more than the %zu allowed", file.size,
                              TWP_FILE_LIMIT);
    tw_sha256_update(&tokenizer->hasher, file.data, file.size);
    if (status == TW_OK)
        status = build(tokenizer,
                       (struct twp_wire){file.data, file.data + file.size},
                       config, err);
    if (status != TW_OK)
        tw_error_prefix(err, "%s", path);
    tw_file_unmap(&file);
    return status;
}
