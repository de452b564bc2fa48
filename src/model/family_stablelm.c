/* StableLM: Llama with LayerNorm, a quarter of each head rotated; some with
 * biases of q, k, v, a norm of its own for every head, or parallel parts that
 * share one norm. */
#include <config.h>

#include <stdio.h>

#include "base/memory.h"
#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_sizes(model, &twp_llama_sizes, err);
    if (status == TW_OK)
        status =
            twp_norm_eps(model, TW_NORM_LAYER, "layer_norm_eps", 1e-5, err);
    if (status == TW_OK)
        status =
            twp_rope(model, &(struct twp_rope_rules){.fraction = 0.25}, err);
    if (status == TW_OK)
        status = twp_activation_field(model, options, "hidden_act", err);
    model->is_gated = true;
    return status;
}

/* NAME.norms.0.weight, ... : a tensor for each head, without biases. */
static enum tw_status bind_heads(struct tw_model *model, int64_t number,
                                 const char *name, int64_t heads,
                                 struct tw_norm *norm, struct tw_error *err)
{
    char prefix[80], text[64];
    struct tw_matrix *parts = tw_calloc((size_t)heads, sizeof *parts);
    if (!parts)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for norms");
    snprintf(prefix, sizeof prefix, "model.layers.%lld.self_attn",
             (long long)number);
    enum tw_status status = TW_OK;
    for (int64_t h = 0; status == TW_OK && h < heads; h++) {
        snprintf(text, sizeof text, "%s.norms.%lld.weight", name, (long long)h);
        status =
            twp_take(model, prefix, text, 0, model->head_dim, &parts[h], err);
    }
    *norm = model->norm;
    norm->groups = heads;
    if (status == TW_OK)
        status = twp_stack(model, parts, heads, &norm->weight, err);
    tw_free(parts);
    return status;
}

static enum tw_status bind_qk_norms(struct tw_model *model,
                                    struct tw_error *err)
{
    bool has_norms;
    enum tw_status status = tw_config_bool_or(
        model->checkpoint.config, "qk_layernorm", false, &has_norms, err);
    for (int64_t l = 0; status == TW_OK && has_norms && l < model->layers;
         l++) {
        struct tw_layer *layer = &model->layer[l];
        status = bind_heads(model, l, "q_layernorm", model->heads,
                            &layer->q_norm, err);
        if (status == TW_OK)
            status = bind_heads(model, l, "k_layernorm", model->kv_heads,
                                &layer->k_norm, err);
    }
    return status;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, false, NULL, NULL, &form, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "use_qkv_bias", false,
                                   &form.has_qkv_bias, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "use_parallel_residual", false,
                                   &form.is_parallel, err);
    form.has_norm_bias = true;
    if (form.is_parallel)
        form.ffn_norm = NULL;
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status == TW_OK ? bind_qk_norms(model, err) : status;
}

const struct tw_family tw_family_stablelm = {
    .model_type = "stablelm",
    .note = "LayerNorm, partial rope, some with parallel parts",
    .resolve = resolve,
    .bind = bind,
};
