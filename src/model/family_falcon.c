/* Falcon, under its names of today and of its first files (RefinedWeb). Three
 * forms: 7b (one key-value head, attention and feed-forward read the same
 * normed rows), 40b and 11b (grouped key-value heads; a norm for each part, or
 * one), and rw (ALiBi, biases, one part after the other). */
#include <config.h>

#include <stdio.h>

#include "model/family.h"

/* What config.json says of the form. */
struct form {
    bool is_new, is_parallel, is_multi_query, has_alibi, has_bias;
    int64_t norms; /* of a parallel layer: 1, or 2 */
};

static enum tw_status read_form(struct tw_model *model, struct form *form,
                                struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    /* The first files of 40b say no more than how many heads. */
    bool is_grouped = tw_config_has(config, "n_head_kv");
    const struct {
        const char *field;
        bool fallback, *value;
    } fields[] = {
        {"new_decoder_architecture", is_grouped, &form->is_new},
        {"parallel_attn", true, &form->is_parallel},
        {"multi_query", true, &form->is_multi_query},
        {"alibi", false, &form->has_alibi},
        {"bias", false, &form->has_bias},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        enum tw_status status = tw_config_bool_or(
            config, fields[i].field, fields[i].fallback, fields[i].value, err);
        if (status != TW_OK)
            return status;
    }
    enum tw_status status = twp_size(model, "num_ln_in_parallel_attn",
                                     form->is_new ? 2 : 1, &form->norms, err);
    if (status == TW_OK &&
        (form->norms > 2 || (form->norms == 2) > form->is_new))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: num_ln_in_parallel_attn %lld is not "
                            "supported here",
                            (long long)form->norms);
    if (status == TW_OK && form->is_new && !form->is_parallel)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: parallel_attn false with "
                            "new_decoder_architecture is not supported");
    return status;
}

static enum tw_status resolve_sizes(struct tw_model *model,
                                    const struct form *form,
                                    struct tw_error *err)
{
    const struct twp_size_names names = {
        .d_model = twp_either(model, "hidden_size", "n_embed"),
        .d_ff = "ffn_hidden_size",
        .default_d_ff = -4,
        .layers = twp_either(model, "num_hidden_layers", "n_layer"),
        .heads = twp_either(model, "num_attention_heads", "n_head"),
        .kv_heads = form->is_new
                        ? twp_either(model, "num_kv_heads", "n_head_kv")
                        : NULL,
    };
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status = twp_size(model, "max_position_embeddings", 2048,
                          &model->max_position, err);
    if (!form->is_new && form->is_multi_query)
        model->kv_heads = model->attention.kv_heads = 1;
    return status;
}

/* Slopes are added before the products are scaled, in bfloat16. */
static enum tw_status resolve_positions(struct tw_model *model,
                                        const struct form *form,
                                        struct tw_error *err)
{
    static const struct twp_rope_rules rope = {.fraction = 0};
    if (!form->has_alibi)
        return twp_rope(model, &rope, err);
    model->attention.alibi_bf16 = model->attention.scale;
    snprintf(model->position_text, sizeof model->position_text,
             "alibi, in bfloat16");
    return TW_OK;
}

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    struct form form;
    enum tw_status status = read_form(model, &form, err);
    if (status == TW_OK)
        status = resolve_sizes(model, &form, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_epsilon", 1e-5, err);
    if (status == TW_OK)
        status = twp_activation_or(model, options, "activation", "gelu", err);
    return status == TW_OK ? resolve_positions(model, &form, err) : status;
}

static const char *const bases[] = {"transformer", "", NULL};
static const struct twp_form falcon = {
    .bases = bases,
    .embed = "word_embeddings",
    .layers = "h",
    .final_norm = "ln_f",
    .head = "lm_head",
    .attn_norm = "input_layernorm",
    .qkv = "self_attention.query_key_value",
    .is_qkv_grouped = true,
    .o = "self_attention.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .has_norm_bias = true,
};

static enum tw_status bind_slopes(struct tw_model *model, struct tw_error *err)
{
    enum tw_status status = twp_alibi(model, err);
    for (int64_t h = 0; status == TW_OK && h < model->heads; h++)
        model->alibi[h] = tw_round_bf16(model->alibi[h]);
    return status;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form names = falcon;
    struct form form;
    enum tw_status status = read_form(model, &form, err);
    if (status == TW_OK)
        status =
            tw_config_bool_or(model->checkpoint.config, "tie_word_embeddings",
                              true, &names.is_tied, err);
    if (status != TW_OK)
        return status;
    names.has_qkv_bias = names.has_o_bias = names.has_ffn_bias = form.has_bias;
    names.is_parallel = form.is_parallel;
    if (!form.is_parallel)
        names.ffn_norm = "post_attention_layernorm";
    if (form.is_parallel && form.norms == 2) {
        names.attn_norm = "ln_attn";
        names.ffn_norm = "ln_mlp";
    }
    status = twp_bind(model, &names, err);
    if (status == TW_OK && form.has_alibi)
        status = bind_slopes(model, err);
    return status;
}

#define FALCON(name)                                                           \
    {                                                                          \
        .model_type = name,                                                    \
        .note = "one or few key-value heads, parallel parts or ALiBi",         \
        .resolve = resolve, .bind = bind                                       \
    }
const struct tw_family tw_family_falcon = FALCON("falcon");
const struct tw_family tw_family_refined_web = FALCON("RefinedWeb");
const struct tw_family tw_family_refined_web_model = FALCON("RefinedWebModel");
