/* Rotary positions of a GGUF file as rope_parameters. Factors of single
 * frequencies (Llama 3.1) stand in the tensor rope_freqs.weight, which the
 * model divides by: rope_type "frequency_factors", a name of our own. */
#include <config.h>

#include <math.h>
#include <string.h>

#include "load/config_internal.h"
#include "load/gguf_arch.h"

#define FIELD(name) "rope_parameters." name

static const struct twp_gguf_field plain_fields[] = {
    {FIELD("rope_theta"), ".rope.freq_base", TWP_FIELD_REAL, true},
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field linear_fields[] = {
    {FIELD("factor"), ".rope.scaling.factor", TWP_FIELD_REAL, false},
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field yarn_fields[] = {
    {FIELD("factor"), ".rope.scaling.factor", TWP_FIELD_REAL, false},
    {FIELD("original_max_position_embeddings"),
     ".rope.scaling.original_context_length", TWP_FIELD_INT, false},
    {FIELD("beta_fast"), ".rope.scaling.yarn_beta_fast", TWP_FIELD_REAL, true},
    {FIELD("beta_slow"), ".rope.scaling.yarn_beta_slow", TWP_FIELD_REAL, true},
    {FIELD("attention_factor"), ".rope.scaling.yarn_attn_factor",
     TWP_FIELD_REAL, true},
    TWP_GGUF_NO_FIELD,
};

static const struct {
    const char *type; /* rope.scaling.type, and rope_type */
    const struct twp_gguf_field *fields;
} kinds[] = {{"linear", linear_fields}, {"yarn", yarn_fields}};

static enum tw_status put_kind(struct twp_gguf_making *making, const char *kind,
                               const char *origin, struct tw_error *err)
{
    return twp_config_put(making->config, FIELD("rope_type"), json_string(kind),
                          origin, err);
}

/* rope.scaling.type; an older form has rope.scale_linear alone. */
static enum tw_status put_scaling(struct twp_gguf_making *making,
                                  struct tw_error *err)
{
    static const struct twp_gguf_field older[] = {
        {FIELD("factor"), ".rope.scale_linear", TWP_FIELD_REAL, false},
        TWP_GGUF_NO_FIELD,
    };
    const char *full = NULL, *text = "";
    size_t size = 0;
    enum tw_status status;
    const struct twp_gguf_value *value =
        twp_gguf_key(making, ".rope.scaling.type", &full);
    if (!value && twp_gguf_key(making, ".rope.scale_linear", &full)) {
        status = put_kind(making, "linear", full, err);
        return status == TW_OK ? twp_gguf_put_fields(making, older, err)
                               : status;
    }
    if (!value || (twp_gguf_text(value, &text, &size) && size == 4 &&
                   memcmp(text, "none", 4) == 0))
        return put_kind(making, "default",
                        value ? full : "no key rope.scaling.type", err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size == strlen(kinds[i].type) &&
            memcmp(text, kinds[i].type, size) == 0) {
            status = put_kind(making, kinds[i].type, full, err);
            return status == TW_OK
                       ? twp_gguf_put_fields(making, kinds[i].fields, err)
                       : status;
        }
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "%s: rope.scaling.type '%.*s' is not supported; "
                        "supported: none, linear, yarn, and the factors in "
                        "rope_freqs.weight",
                        making->gguf->file[0].name, size < 60 ? (int)size : 60,
                        text);
}

/* Factors for short and long sequences as lists (Phi-3). */
static enum tw_status put_factors(struct twp_gguf_making *making,
                                  const char *tensor, const char *field,
                                  struct tw_error *err)
{
    const struct twp_gguf_tensor *t = twp_gguf_tensor(making->gguf, tensor);
    if (!t || t->dims != 1 || t->type->dequant || t->type->dtype != TW_F32 ||
        t->elements > 1 << 16)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: no float32 vector '%s'",
                            making->gguf->file[0].name, tensor);
    json_t *list = json_array();
    for (int64_t i = 0; list && i < t->elements; i++) {
        float factor;
        memcpy(&factor, t->data + (size_t)i * sizeof factor, sizeof factor);
        if (!isfinite(factor) ||
            json_array_append_new(list, json_real((double)factor)) != 0) {
            json_decref(list);
            return tw_error_set(err, TW_ERR_NUMERIC,
                                "%s: tensor '%s' is not a finite number at "
                                "[%lld]",
                                making->gguf->file[0].name, tensor,
                                (long long)i);
        }
    }
    return twp_config_put(making->config, field, list, tensor, err);
}

static enum tw_status put_longrope(struct twp_gguf_making *making,
                                   struct tw_error *err)
{
    static const struct twp_gguf_field attention[] = {
        {FIELD("attention_factor"), ".rope.scaling.attn_factor", TWP_FIELD_REAL,
         true},
        TWP_GGUF_NO_FIELD,
    };
    enum tw_status status =
        put_kind(making, "longrope", "rope_factors_short.weight", err);
    if (status == TW_OK)
        status = put_factors(making, "rope_factors_short.weight",
                             FIELD("short_factor"), err);
    if (status == TW_OK)
        status = put_factors(making, "rope_factors_long.weight",
                             FIELD("long_factor"), err);
    if (status == TW_OK)
        status = twp_gguf_put_fields(making, attention, err);
    return status;
}

/* Rotated dimensions as a part of the head. */
static enum tw_status put_part(struct twp_gguf_making *making,
                               struct tw_error *err)
{
    int64_t width = 0, heads = 1, head_dim = 0, dims = 0;
    const char *full = NULL;
    enum tw_status status =
        twp_gguf_number(making, ".embedding_length", 0, &width, err);
    if (status == TW_OK)
        status =
            twp_gguf_number(making, ".attention.head_count", 1, &heads, err);
    if (status == TW_OK)
        status = twp_gguf_number(making, ".attention.key_length",
                                 heads > 0 ? width / heads : 0, &head_dim, err);
    if (status == TW_OK)
        status = twp_gguf_number(making, ".rope.dimension_count", head_dim,
                                 &dims, err);
    if (status != TW_OK || head_dim < 1 ||
        !twp_gguf_key(making, ".rope.dimension_count", &full))
        return status;
    return twp_config_put(making->config, FIELD("partial_rotary_factor"),
                          json_real((double)dims / (double)head_dim), full,
                          err);
}

enum tw_status twp_gguf_rope(struct twp_gguf_making *making,
                             struct tw_error *err)
{
    enum tw_status status = twp_gguf_put_fields(making, plain_fields, err);
    if (status == TW_OK && twp_gguf_tensor(making->gguf, "rope_freqs.weight"))
        status =
            put_kind(making, "frequency_factors", "rope_freqs.weight", err);
    else if (status == TW_OK &&
             twp_gguf_tensor(making->gguf, "rope_factors_short.weight"))
        status = put_longrope(making, err);
    else if (status == TW_OK)
        status = put_scaling(making, err);
    if (status == TW_OK)
        status = put_part(making, err);
    return status;
}
