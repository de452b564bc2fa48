/* Phi-1, Phi-1.5, Phi-2: part of a head is rotated; attention and feed-forward
 * read the same normed rows; biases everywhere. */
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
        .max_position = "max_position_embeddings",
    };
    static const struct twp_rope_rules rope = {.fraction = 0.5};
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status =
            twp_activation_or(model, options, "hidden_act", "gelu_new", err);
    return status == TW_OK ? twp_rope(model, &rope, err) : status;
}

static const struct twp_form phi = {
    .embed = "model.embed_tokens",
    .layers = "model.layers",
    .final_norm = "model.final_layernorm",
    .head = "lm_head",
    .attn_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.dense",
    .qk_norm = TWP_QK_HEAD,
    .up = "mlp.fc1",
    .down = "mlp.fc2",
    .has_qkv_bias = true,
    .has_o_bias = true,
    .has_ffn_bias = true,
    .has_norm_bias = true,
    .has_head_bias = true,
    .is_parallel = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = phi;
    bool has_norm = false;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              false, &form.is_tied, err);
    if (status == TW_OK)
        status =
            tw_config_bool_or(config, "qk_layernorm", false, &has_norm, err);
    if (has_norm) {
        form.q_norm = "self_attn.q_layernorm";
        form.k_norm = "self_attn.k_layernorm";
    }
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_phi = {
    .model_type = "phi",
    .note = "partial rope, parallel parts, biases (phi-1, phi-1.5, phi-2)",
    .resolve = resolve,
    .bind = bind,
};
