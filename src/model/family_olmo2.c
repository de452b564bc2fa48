/* OLMo 2: Llama whose norms stand after each part, not before, with norms over
 * the whole width of q and of k. */
#include <config.h>

#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_llama_resolve(model, options, err);
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_RMS, "rms_norm_eps", 1e-5, err);
    return status;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, false, "attention_bias", NULL, &form, err);
    form.attn_norm = form.ffn_norm = NULL;
    form.attn_out_norm = "post_attention_layernorm";
    form.ffn_out_norm = "post_feedforward_layernorm";
    form.q_norm = "self_attn.q_norm";
    form.k_norm = "self_attn.k_norm";
    form.qk_norm = TWP_QK_WHOLE;
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_olmo2 = {
    .model_type = "olmo2",
    .note = "norms after each part, norms of q and k",
    .resolve = resolve,
    .bind = bind,
};
