/* Nemotron, Minitron: squared ReLU without a gate, norms whose weights are kept
 * less 1, partial rope. */
#include <config.h>

#include "model/family.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    static const struct twp_size_names names = {
        .d_model = "hidden_size",
        .d_ff = "intermediate_size",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .kv_heads = "num_key_value_heads",
        .head_dim = "head_dim",
        .max_position = "max_position_embeddings",
    };
    static const struct twp_rope_rules rope = {.fraction = 0.5};
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_LAYER, "norm_eps", 1e-5, err);
    model->norm.offset = 1;
    if (status == TW_OK)
        status = twp_activation_or(model, options, "hidden_act", "relu2", err);
    return status == TW_OK ? twp_rope(model, &rope, err) : status;
}

static const struct twp_form nemotron = {
    .embed = "model.embed_tokens",
    .layers = "model.layers",
    .final_norm = "model.norm",
    .head = "lm_head",
    .attn_norm = "input_layernorm",
    .ffn_norm = "post_attention_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.o_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .has_norm_bias = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = nemotron;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              false, &form.is_tied, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "attention_bias", false,
                                   &form.has_qkv_bias, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "mlp_bias", false,
                                   &form.has_ffn_bias, err);
    form.has_o_bias = form.has_qkv_bias;
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_nemotron = {
    .model_type = "nemotron",
    .note = "squared ReLU without a gate, LayerNorm of weights + 1",
    .resolve = resolve,
    .bind = bind,
};
