/* Mistral: Llama without biases, every layer with a sliding window; and Bamboo
 * (TurboSparse-Mistral), which activates the up projection as well (dReLU) and
 * carries predictors of which neurons will fire. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "model/family_llama.h"

/* sliding_window: null is none; the first files leave 4096 out. */
static enum tw_status read_window(struct tw_model *model, struct tw_error *err)
{
    return twp_window(model, 4096, &model->attention.window, err);
}

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_llama_resolve(model, options, err);
    return status == TW_OK ? read_window(model, err) : status;
}

static enum tw_status resolve_bamboo(struct tw_model *model,
                                     const struct tw_model_options *options,
                                     struct tw_error *err)
{
    enum tw_status status = resolve(model, options, err);
    model->is_up_activated = true;
    size_t used = strlen(model->activation_source);
    snprintf(model->activation_source + used,
             sizeof model->activation_source - used,
             "; the family applies it to up as well (dReLU)");
    return status;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, false, NULL, NULL, &form, err);
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

const struct tw_family tw_family_mistral = {
    .model_type = "mistral",
    .note = "sliding window in every layer",
    .resolve = resolve,
    .bind = bind,
};

static const char *const predictors[] = {".mlp.predictor.", NULL};

const struct tw_family tw_family_bamboo = {
    .model_type = "bamboo",
    .note = "Bamboo, TurboSparse-Mistral: dReLU; predictors are not used",
    .resolve = resolve_bamboo,
    .bind = bind,
    .ignored = predictors,
};
