/* Arcee (AFM): Llama with a plain feed-forward layer of squared ReLU. */
#include <config.h>

#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_llama_resolve(model, options, err);
    model->is_gated = false;
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_RMS, "rms_norm_eps", 1e-5, err);
    return status;
}

const struct tw_family tw_family_arcee = {
    .model_type = "arcee",
    .note = "AFM: Llama with squared ReLU and no gate",
    .resolve = resolve,
    .bind = twp_llama_bind,
};
