/* Llama: RMS norms, rotary positions, grouped-query attention, gated
 * feed-forward layers. hidden_act decides whether it is sparse (ReluLLaMA,
 * ProSparse) or not. */
#include <config.h>

#include "model/family_llama.h"

const struct twp_size_names twp_llama_sizes = {
    .d_model = "hidden_size",
    .d_ff = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .head_dim = "head_dim",
    .max_position = "max_position_embeddings",
};

const struct twp_form twp_llama_form = {
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
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

/* What other implementations can do and this one cannot. */
static enum tw_status refuse_variants(struct tw_model *model,
                                      struct tw_error *err)
{
    int64_t tp;
    enum tw_status status = tw_config_int_or(model->checkpoint.config,
                                             "pretraining_tp", 1, &tp, err);
    if (status == TW_OK && tp != 1)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: pretraining_tp %lld is not "
                            "supported, only 1",
                            (long long)tp);
    return status;
}

enum tw_status twp_llama_shape(struct tw_model *model,
                               const struct twp_size_names *sizes,
                               const struct twp_rope_rules *rules,
                               struct tw_error *err)
{
    enum tw_status status = twp_sizes(model, sizes, err);
    if (status == TW_OK)
        status = refuse_variants(model, err);
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_RMS, "rms_norm_eps", 1e-6, err);
    if (status == TW_OK)
        status = twp_rope(model, rules, err);
    model->is_gated = true;
    return status;
}

enum tw_status twp_llama_resolve(struct tw_model *model,
                                 const struct tw_model_options *options,
                                 struct tw_error *err)
{
    enum tw_status status = twp_llama_shape(model, &twp_llama_sizes,
                                            &(struct twp_rope_rules){0}, err);
    if (status == TW_OK)
        status = twp_activation_field(model, options, "hidden_act", err);
    return status;
}

enum tw_status twp_llama_flags(struct tw_model *model, bool is_tied,
                               const char *attn_bias, const char *ffn_bias,
                               struct twp_form *form, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool has_bias = false;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              is_tied, &form->is_tied, err);
    if (status == TW_OK && attn_bias) {
        status = tw_config_bool_or(config, attn_bias, false, &has_bias, err);
        form->has_qkv_bias = form->has_o_bias = has_bias;
    }
    if (status == TW_OK && ffn_bias)
        status = tw_config_bool_or(config, ffn_bias, false, &form->has_ffn_bias,
                                   err);
    return status;
}

enum tw_status twp_llama_bind_form(struct tw_model *model,
                                   struct twp_form *form, struct tw_error *err)
{
    enum tw_status status =
        twp_llama_flags(model, false, "attention_bias", "mlp_bias", form, err);
    return status == TW_OK ? twp_bind(model, form, err) : status;
}

enum tw_status twp_llama_bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    return twp_llama_bind_form(model, &form, err);
}

const struct tw_family tw_family_llama = {
    .model_type = "llama",
    .note = "any hidden_act: ReluLLaMA, ProSparse (fatrelu), SmolLM",
    .resolve = twp_llama_resolve,
    .bind = twp_llama_bind,
};

/* SparseLLM's files of ProSparse models name their own code, which is Llama's
 * with fatrelu. */
const struct tw_family tw_family_sparsellama = {
    .model_type = "sparsellama",
    .note = "ProSparse: Llama with fatrelu",
    .resolve = twp_llama_resolve,
    .bind = twp_llama_bind,
};
