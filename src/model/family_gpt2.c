/* GPT-2: learned positions, LayerNorm, one tensor for q, k and v, weights that
 * stand as [in][out]. */
#include <config.h>

#include "model/family.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    const struct twp_size_names names = {
        .d_model = twp_either(model, "n_embd", "hidden_size"),
        .d_ff = "n_inner",
        .default_d_ff = -4,
        .layers = twp_either(model, "n_layer", "num_hidden_layers"),
        .heads = twp_either(model, "n_head", "num_attention_heads"),
        .max_position =
            twp_either(model, "n_positions", "max_position_embeddings"),
    };
    bool is_scaled = true;
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_epsilon", 1e-5, err);
    if (status == TW_OK)
        status = twp_activation_or(model, options, "activation_function",
                                   "gelu_new", err);
    if (status == TW_OK)
        status = twp_only_bool(model, "add_cross_attention", false, err);
    if (status == TW_OK)
        status = tw_config_bool_or(model->checkpoint.config,
                                   "scale_attn_weights", true, &is_scaled, err);
    if (!is_scaled)
        model->attention.scale = 1;
    twp_learned_positions(model);
    return status;
}

static const char *const bases[] = {"transformer", "", NULL};
static const struct twp_form gpt2 = {
    .bases = bases,
    .embed = "wte",
    .positions = "wpe",
    .layers = "h",
    .final_norm = "ln_f",
    .head = "lm_head",
    .attn_norm = "ln_1",
    .ffn_norm = "ln_2",
    .qkv = "attn.c_attn",
    .o = "attn.c_proj",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .is_transposed = true,
    .has_qkv_bias = true,
    .has_o_bias = true,
    .has_ffn_bias = true,
    .has_norm_bias = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = gpt2;
    bool is_by_layer = false;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              true, &form.is_tied, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "scale_attn_by_inverse_layer_idx",
                                   false, &is_by_layer, err);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    for (int64_t l = 0; is_by_layer && l < model->layers; l++)
        model->layer[l].attention.scale /= (float)(l + 1);
    return status;
}

/* Causal masks, which older files store. */
static const char *const ignored[] = {".attn.bias", ".attn.masked_bias", NULL};
const struct tw_family tw_family_gpt2 = {
    .model_type = "gpt2",
    .note = "learned positions, transposed weights, fused q, k and v",
    .resolve = resolve,
    .bind = bind,
    .ignored = ignored,
};
