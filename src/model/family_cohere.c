/* Cohere (Command R): both parts of a layer read one LayerNorm without biases,
 * rotary pairs stand side by side, logits are scaled. */
#include <config.h>

#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    double scale;
    enum tw_status status = twp_sizes(model, &twp_llama_sizes, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status = twp_rope(
            model,
            &(struct twp_rope_rules){.theta = 5e5, .is_interleaved = true},
            err);
    if (status == TW_OK)
        status = twp_factor(model, "logit_scale", 0.0625, &scale, err);
    if (status != TW_OK)
        return status;
    model->head_form.scale = (float)scale;
    model->is_gated = true;
    return twp_activation_field(model, options, "hidden_act", err);
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    bool has_norms = false;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", NULL, &form, err);
    if (status == TW_OK)
        status = tw_config_bool_or(model->checkpoint.config, "use_qk_norm",
                                   false, &has_norms, err);
    form.ffn_norm = NULL;
    form.is_parallel = true;
    if (has_norms) {
        form.q_norm = "self_attn.q_norm";
        form.k_norm = "self_attn.k_norm";
        form.qk_norm = TWP_QK_EACH;
    }
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status;
}

const struct tw_family tw_family_cohere = {
    .model_type = "cohere",
    .note = "Command R: parallel parts, one LayerNorm, scaled logits",
    .resolve = resolve,
    .bind = bind,
};
