/* BLOOM: no positions but slopes in attention (ALiBi), a norm of the
 * embeddings, q, k and v of each head together. */
#include <config.h>

#include <stdio.h>

#include "model/family.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    const struct twp_size_names names = {
        .d_model = twp_either(model, "hidden_size", "n_embed"),
        .default_d_ff = -4,
        .layers = twp_either(model, "n_layer", "num_hidden_layers"),
        .heads = twp_either(model, "n_head", "num_attention_heads"),
    };
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status = twp_size(model, "seq_length", 2048, &model->max_position, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_epsilon", 1e-5, err);
    if (status == TW_OK)
        status = twp_only_bool(
            model, "apply_residual_connection_post_layernorm", false, err);
    if (status == TW_OK)
        status = twp_activation(model, options, "gelu_pytorch_tanh",
                                "family's code", err);
    snprintf(model->position_text, sizeof model->position_text, "alibi");
    return status;
}

static const char *const bases[] = {"transformer", "", NULL};
static const struct twp_form bloom = {
    .bases = bases,
    .embed = "word_embeddings",
    .embed_norm = "word_embeddings_layernorm",
    .layers = "h",
    .final_norm = "ln_f",
    .head = "lm_head",
    .attn_norm = "input_layernorm",
    .ffn_norm = "post_attention_layernorm",
    .qkv = "self_attention.query_key_value",
    .is_qkv_grouped = true,
    .o = "self_attention.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .has_qkv_bias = true,
    .has_o_bias = true,
    .has_ffn_bias = true,
    .has_norm_bias = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = bloom;
    enum tw_status status =
        tw_config_bool_or(model->checkpoint.config, "tie_word_embeddings", true,
                          &form.is_tied, err);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status == TW_OK ? twp_alibi(model, err) : status;
}

const struct tw_family tw_family_bloom = {
    .model_type = "bloom",
    .note = "ALiBi, a norm of the embeddings, fused q, k and v",
    .resolve = resolve,
    .bind = bind,
};
