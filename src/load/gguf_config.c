/* A config from GGUF metadata: the fields that src/model looks up, each with
 * the key, or the tensor, it follows from. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "load/config_internal.h"
#include "load/gguf_arch.h"

enum { KEY_BYTES = 128 };

const struct twp_gguf_value *twp_gguf_key(const struct twp_gguf_making *making,
                                          const char *key, const char **full)
{
    char text[KEY_BYTES];
    snprintf(text, sizeof text, "%s%s", *key == '.' ? making->arch->name : "",
             key);
    const struct twp_gguf_value *value =
        twp_gguf_find(&making->gguf->file[0], text);
    if (value)
        *full = value->key;
    return value;
}

static enum tw_status wrong(const struct twp_gguf_making *making,
                            const char *key, const char *wanted,
                            struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s: key '%s%s' is not %s",
                        making->gguf->file[0].name,
                        *key == '.' ? making->arch->name : "", key, wanted);
}

/* Arrays hold a number for each layer; models whose layers differ are none of
 * the families. */
static bool all_items(const struct twp_gguf_value *array, int64_t *number)
{
    struct twp_gguf_value item;
    int64_t next;
    for (uint64_t i = 0; i < array->count; i++) {
        if (!twp_gguf_item(array, i, &item) || !twp_gguf_int(&item, &next) ||
            (i > 0 && next != *number))
            return false;
        *number = next;
    }
    return array->count > 0;
}

enum tw_status twp_gguf_number(const struct twp_gguf_making *making,
                               const char *key, int64_t fallback,
                               int64_t *number, struct tw_error *err)
{
    const char *full;
    const struct twp_gguf_value *value = twp_gguf_key(making, key, &full);
    *number = fallback;
    if (!value)
        return TW_OK;
    if (value->kind == TWP_GGUF_ARRAY ? all_items(value, number)
                                      : twp_gguf_int(value, number))
        return TW_OK;
    return wrong(making, key, "an integer, the same for all layers", err);
}

enum tw_status twp_gguf_real_number(const struct twp_gguf_making *making,
                                    const char *key, double fallback,
                                    double *number, struct tw_error *err)
{
    const char *full;
    const struct twp_gguf_value *value = twp_gguf_key(making, key, &full);
    *number = fallback;
    if (!value || twp_gguf_real(value, number))
        return TW_OK;
    return wrong(making, key, "a number", err);
}

static enum tw_status put_field(struct twp_gguf_making *making,
                                const struct twp_gguf_field *field,
                                struct tw_error *err)
{
    const char *full = NULL;
    int64_t whole = 0;
    double real = 0;
    bool is_true = false;
    json_t *json = NULL;
    const struct twp_gguf_value *value =
        twp_gguf_key(making, field->key, &full);
    if (!value && field->is_optional)
        return TW_OK;
    if (!value)
        return wrong(making, field->key, "there", err);
    if (field->kind == TWP_FIELD_INT || field->kind == TWP_FIELD_COUNT) {
        enum tw_status status =
            twp_gguf_number(making, field->key, 0, &whole, err);
        if (status != TW_OK)
            return status;
        if (whole == 0 && field->kind == TWP_FIELD_COUNT)
            return TW_OK;
        json = json_integer(whole);
    } else if (field->kind == TWP_FIELD_REAL) {
        if (!twp_gguf_real(value, &real))
            return wrong(making, field->key, "a number", err);
        json = json_real(real);
    } else {
        if (!twp_gguf_bool(value, &is_true))
            return wrong(making, field->key, "true or false", err);
        json = json_boolean(is_true);
    }
    return twp_config_put(making->config, field->field, json, full, err);
}

enum tw_status twp_gguf_put_fields(struct twp_gguf_making *making,
                                   const struct twp_gguf_field *fields,
                                   struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (; fields && fields->field && status == TW_OK; fields++)
        status = put_field(making, fields, err);
    return status;
}

enum tw_status twp_gguf_constant(struct twp_gguf_making *making,
                                 const char *field, json_t *value,
                                 struct tw_error *err)
{
    return twp_config_put(making->config, field, value, "general.architecture",
                          err);
}

/* llama.cpp keeps no name of the activation: it runs the one that the
 * architecture has. A file may say more in ARCH.hidden_activation. */
static enum tw_status put_activation(struct twp_gguf_making *making,
                                     struct tw_error *err)
{
    const char *full, *text, *field = making->arch->activation_field;
    size_t size;
    char assumed[KEY_BYTES];
    if (!field)
        return TW_OK;
    const struct twp_gguf_value *value =
        twp_gguf_key(making, ".hidden_activation", &full);
    if (!value) {
        snprintf(assumed, sizeof assumed,
                 "assumed: no key %s.hidden_activation", making->arch->name);
        return twp_config_put(making->config, field,
                              json_string(making->arch->activation), assumed,
                              err);
    }
    if (!twp_gguf_text(value, &text, &size))
        return wrong(making, ".hidden_activation", "a text", err);
    json_t *json = json_stringn(text, size);
    if (!json)
        return wrong(making, ".hidden_activation", "valid UTF-8", err);
    return twp_config_put(making->config, field, json, full, err);
}

/* What the tensors tell: vocabulary, width, a head of its own, biases. */
static enum tw_status put_sizes(struct twp_gguf_making *making,
                                struct tw_error *err)
{
    const struct tw_gguf *gguf = making->gguf;
    const char *width = making->arch->width_field;
    const struct twp_gguf_tensor *embed =
        twp_gguf_tensor(gguf, "token_embd.weight");
    const struct twp_gguf_tensor *up =
        twp_gguf_tensor(gguf, "blk.0.ffn_up.weight");
    if (!embed || embed->dims != 2)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no matrix 'token_embd.weight': only a "
                            "vocabulary, or no language model",
                            gguf->file[0].name);
    enum tw_status status = twp_config_put(making->config, "vocab_size",
                                           json_integer(embed->shape[0]),
                                           "rows of token_embd.weight", err);
    if (status != TW_OK || !width)
        return status;
    if (!up || up->dims != 2)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no matrix 'blk.0.ffn_up.weight'",
                            gguf->file[0].name);
    return twp_config_put(making->config, width, json_integer(up->shape[0]),
                          "rows of blk.0.ffn_up.weight", err);
}

static enum tw_status put_presences(struct twp_gguf_making *making,
                                    const struct twp_gguf_presence *presence,
                                    struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (; presence && presence->field && status == TW_OK; presence++) {
        char origin[KEY_BYTES];
        bool is_there = twp_gguf_tensor(making->gguf, presence->tensor) != NULL;
        snprintf(origin, sizeof origin, "%s %s", is_there ? "has" : "no",
                 presence->tensor);
        status = twp_config_put(
            making->config, presence->field,
            json_boolean(is_there != presence->is_when_absent), origin, err);
    }
    return status;
}

static enum tw_status refuse_mixture(const struct twp_gguf_making *making,
                                     struct tw_error *err)
{
    int64_t experts = 0;
    enum tw_status status =
        twp_gguf_number(making, ".expert_count", 0, &experts, err);
    if (status == TW_OK && experts > 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: a mixture of %lld experts, which is not "
                            "supported",
                            making->gguf->file[0].name, (long long)experts);
    return status;
}

static enum tw_status fill(struct twp_gguf_making *making, struct tw_error *err)
{
    static const struct twp_gguf_field common[] = {
        {"bos_token_id", "tokenizer.ggml.bos_token_id", TWP_FIELD_INT, true},
        {"eos_token_id", "tokenizer.ggml.eos_token_id", TWP_FIELD_INT, true},
        TWP_GGUF_NO_FIELD,
    };
    static const struct twp_gguf_presence tied[] = {
        {"tie_word_embeddings", "output.weight", true},
        TWP_GGUF_NO_PRESENCE,
    };
    const struct twp_gguf_arch *arch = making->arch;
    enum tw_status status = refuse_mixture(making, err);
    if (status == TW_OK)
        status = twp_gguf_constant(making, "model_type",
                                   json_string(arch->model_type), err);
    if (status == TW_OK)
        status = twp_gguf_put_fields(making, arch->fields, err);
    if (status == TW_OK)
        status = twp_gguf_put_fields(making, arch->more_fields, err);
    if (status == TW_OK)
        status = put_activation(making, err);
    if (status == TW_OK)
        status = put_sizes(making, err);
    if (status == TW_OK)
        status = put_presences(making, tied, err);
    if (status == TW_OK)
        status = put_presences(making, arch->presences, err);
    if (status == TW_OK && arch->has_rope)
        status = twp_gguf_rope(making, err);
    if (status == TW_OK && arch->more)
        status = arch->more(making, err);
    if (status == TW_OK)
        status = twp_gguf_put_fields(making, common, err);
    return status;
}

enum tw_status twp_gguf_config(struct tw_gguf *gguf,
                               const struct twp_gguf_arch *arch,
                               struct tw_config **config, struct tw_error *err)
{
    struct twp_gguf_making making = {.gguf = gguf, .arch = arch};
    enum tw_status status =
        twp_config_create(gguf->file[0].name, &making.config, err);
    if (status == TW_OK)
        status = fill(&making, err);
    if (status != TW_OK)
        tw_config_close(making.config);
    else
        *config = making.config;
    return status;
}
