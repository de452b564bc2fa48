/* Phi-3: Llama with q, k, v in one tensor and gate, up in another, a sliding
 * window in every layer of some, part of a head rotated (Phi-4 mini), longrope
 * (128k models, here up to the original positions). */
#include <config.h>

#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_llama_shape(
        model, &twp_llama_sizes, &(struct twp_rope_rules){.fraction = 1}, err);
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_RMS, "rms_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status = twp_window(model, 0, &model->attention.window, err);
    if (status != TW_OK)
        return status;
    return twp_activation_field(model, options, "hidden_act", err);
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, false, NULL, NULL, &form, err);
    form.qkv = "self_attn.qkv_proj";
    form.gate_up = "mlp.gate_up_proj";
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_phi3 = {
    .model_type = "phi3",
    .note = "Phi-3, 3.5, 4: fused qkv and gate_up, longrope",
    .resolve = resolve,
    .bind = bind,
};
