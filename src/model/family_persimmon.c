/* Persimmon: squared ReLU without a gate, LayerNorm, half of each head rotated,
 * q, k and v of each head together, a norm of every head's q and k; biases
 * everywhere. */
#include <config.h>

#include "model/family.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    static const struct twp_size_names sizes = {
        .d_model = "hidden_size",
        .d_ff = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .max_position = "max_position_embeddings",
    };
    static const struct twp_rope_rules rope = {.fraction = 0.5};
    enum tw_status status = twp_sizes(model, &sizes, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status = twp_activation_field(model, options, "hidden_act", err);
    return status == TW_OK ? twp_rope(model, &rope, err) : status;
}

static const struct twp_form persimmon = {
    .embed = "model.embed_tokens",
    .layers = "model.layers",
    .final_norm = "model.final_layernorm",
    .head = "lm_head",
    .attn_norm = "input_layernorm",
    .ffn_norm = "post_attention_layernorm",
    .qkv = "self_attn.query_key_value",
    .is_qkv_grouped = true,
    .o = "self_attn.dense",
    .qk_norm = TWP_QK_HEAD,
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .has_qkv_bias = true,
    .has_o_bias = true,
    .has_ffn_bias = true,
    .has_norm_bias = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = persimmon;
    bool has_norms = false;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              false, &form.is_tied, err);
    if (status == TW_OK)
        status =
            tw_config_bool_or(config, "qk_layernorm", true, &has_norms, err);
    if (has_norms) {
        form.q_norm = "self_attn.q_layernorm";
        form.k_norm = "self_attn.k_layernorm";
    }
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_persimmon = {
    .model_type = "persimmon",
    .note = "squared ReLU without a gate, norms of q and k, partial rope",
    .resolve = resolve,
    .bind = bind,
};
