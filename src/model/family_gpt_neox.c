/* GPT-NeoX, Pythia: part of a head is rotated, q, k and v of each head stand
 * together, attention and feed-forward read the same stream. */
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
        .max_position = "max_position_embeddings",
    };
    struct tw_config *config = model->checkpoint.config;
    struct twp_rope_rules rope = {.fraction = 0.25};
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status = twp_activation_or(model, options, "hidden_act", "gelu", err);
    if (status == TW_OK)
        status =
            tw_config_real_or(config, "rotary_pct", 0.25, &rope.fraction, err);
    if (status == TW_OK)
        status = tw_config_real_or(config, "rotary_emb_base", 10000,
                                   &rope.theta, err);
    if (status == TW_OK)
        status = twp_rope(model, &rope, err);
    return status;
}

static const char *const bases[] = {"gpt_neox", "", NULL};
static const struct twp_form neox = {
    .bases = bases,
    .embed = "embed_in",
    .layers = "layers",
    .final_norm = "final_layer_norm",
    .head = "embed_out",
    .attn_norm = "input_layernorm",
    .ffn_norm = "post_attention_layernorm",
    .qkv = "attention.query_key_value",
    .is_qkv_grouped = true,
    .o = "attention.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
    .has_ffn_bias = true,
    .has_norm_bias = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = neox;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              false, &form.is_tied, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "attention_bias", true,
                                   &form.has_qkv_bias, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "use_parallel_residual", true,
                                   &form.is_parallel, err);
    form.has_o_bias = form.has_qkv_bias;
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

/* Causal masks, which older files store. */
static const char *const ignored[] = {".attention.bias",
                                      ".attention.masked_bias", NULL};
const struct tw_family tw_family_gpt_neox = {
    .model_type = "gpt_neox",
    .note = "partial rope, parallel attention and feed-forward (Pythia)",
    .resolve = resolve,
    .bind = bind,
    .ignored = ignored,
};
