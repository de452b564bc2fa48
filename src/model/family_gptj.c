/* GPT-J: interleaved rope over part of a head; attention and feed-forward read
 * the same normed rows; the head has a bias. */
#include <config.h>

#include "model/family.h"

static enum tw_status resolve_rope(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_rope_rules rope = {.is_interleaved = true};
    if (tw_config_is_null(config, "rotary_dim"))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: rotary_dim null is not supported, "
                            "only a number of dimensions");
    enum tw_status status = twp_size(model, "rotary_dim", 64, &rope.dims, err);
    return status == TW_OK ? twp_rope(model, &rope, err) : status;
}

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
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_epsilon", 1e-5, err);
    if (status == TW_OK)
        status = twp_activation_or(model, options, "activation_function",
                                   "gelu_new", err);
    return status == TW_OK ? resolve_rope(model, err) : status;
}

static const char *const bases[] = {"transformer", "", NULL};
static const struct twp_form gptj = {
    .bases = bases,
    .embed = "wte",
    .layers = "h",
    .final_norm = "ln_f",
    .head = "lm_head",
    .attn_norm = "ln_1",
    .q = "attn.q_proj",
    .k = "attn.k_proj",
    .v = "attn.v_proj",
    .o = "attn.out_proj",
    .up = "mlp.fc_in",
    .down = "mlp.fc_out",
    .has_ffn_bias = true,
    .has_norm_bias = true,
    .has_head_bias = true,
    .is_parallel = true,
};

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = gptj;
    enum tw_status status =
        tw_config_bool_or(model->checkpoint.config, "tie_word_embeddings",
                          false, &form.is_tied, err);
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

/* Causal masks, which older files store. */
static const char *const ignored[] = {".attn.bias", ".attn.masked_bias", NULL};
const struct tw_family tw_family_gptj = {
    .model_type = "gptj",
    .note = "interleaved partial rope, parallel parts, biased head",
    .resolve = resolve,
    .bind = bind,
    .ignored = ignored,
};
