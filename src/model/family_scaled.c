/* Llamas with factors: Granite (embeddings, attention, what each part adds,
 * logits) and MiniCPM (embeddings, what each part adds, logits). */
#include <config.h>

#include <math.h>

#include "model/family_llama.h"

static void set_residual_scale(struct tw_model *model, double scale)
{
    for (int64_t l = 0; l < model->layers; l++)
        model->layer[l].residual_scale = (float)scale;
}

static enum tw_status resolve_granite(struct tw_model *model,
                                      const struct tw_model_options *options,
                                      struct tw_error *err)
{
    double embed, attention, logits;
    enum tw_status status = twp_llama_resolve(model, options, err);
    if (status == TW_OK)
        status = twp_factor(model, "embedding_multiplier", 1, &embed, err);
    if (status == TW_OK)
        status = twp_factor(model, "attention_multiplier", 1, &attention, err);
    if (status == TW_OK)
        status = twp_factor(model, "logits_scaling", 1, &logits, err);
    if (status != TW_OK)
        return status;
    model->embed_scale = (float)embed;
    model->attention.scale = (float)attention;
    model->head_form.scale = (float)(1 / logits);
    return TW_OK;
}

static enum tw_status bind_granite(struct tw_model *model, struct tw_error *err)
{
    double scale;
    enum tw_status status = twp_llama_bind(model, err);
    if (status == TW_OK)
        status = twp_factor(model, "residual_multiplier", 1, &scale, err);
    if (status == TW_OK)
        set_residual_scale(model, scale);
    return status;
}

const struct tw_family tw_family_granite = {
    .model_type = "granite",
    .note = "factors on embeddings, attention, parts and logits",
    .resolve = resolve_granite,
    .bind = bind_granite,
};

/* The published code divides what the head reads by d_model / dim_model_base.
 */
static enum tw_status resolve_minicpm(struct tw_model *model,
                                      const struct tw_model_options *options,
                                      struct tw_error *err)
{
    double embed, base;
    int64_t experts;
    enum tw_status status = twp_llama_resolve(model, options, err);
    if (status == TW_OK)
        status = tw_config_int_or(model->checkpoint.config, "num_experts", 0,
                                  &experts, err);
    if (status == TW_OK && experts != 0)
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "config.json: num_experts %lld: mixtures of "
                              "experts are not supported",
                              (long long)experts);
    if (status == TW_OK)
        status = twp_factor(model, "scale_emb", 0, &embed, err);
    if (status == TW_OK)
        status = twp_factor(model, "dim_model_base", 0, &base, err);
    if (status != TW_OK)
        return status;
    model->embed_scale = (float)embed;
    model->head_form.scale = (float)(base / (double)model->d_model);
    return TW_OK;
}

static enum tw_status bind_minicpm(struct tw_model *model, struct tw_error *err)
{
    double depth;
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", NULL, &form, err);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    if (status == TW_OK)
        status = twp_factor(model, "scale_depth", 0, &depth, err);
    if (status == TW_OK)
        set_residual_scale(model, depth / sqrt((double)model->layers));
    return status;
}

const struct tw_family tw_family_minicpm = {
    .model_type = "minicpm",
    .note = "MiniCPM, MiniCPM-S (fatrelu): scale_emb, scale_depth, "
            "dim_model_base",
    .resolve = resolve_minicpm,
    .bind = bind_minicpm,
};
