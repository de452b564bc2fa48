/* Gemma 1 to 3: norms with 1 + weight, embeddings scaled by sqrt(d_model),
 * tied. 2: norms around each part, soft caps, every other layer local. 3: norms
 * of q and k instead of the caps, five layers of six local, with a rope of
 * their own.
 *
 * The scale is computed in single precision, as transformers does for a model
 * in float32; in bfloat16 it would be rounded. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/family_llama.h"

#define TANH "gelu_pytorch_tanh"

/* hidden_activation counts. Files without it are of the first days, and the
 * "gelu" in their hidden_act is the tanh form that the model was trained
 * with. */
static enum tw_status read_activation(struct tw_model *model,
                                      const struct tw_model_options *options,
                                      struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    const char *name, *older;
    enum tw_status status =
        tw_config_text_or(config, "hidden_act", TANH, &older, err);
    if (status == TW_OK)
        status =
            tw_config_text_or(config, "hidden_activation", NULL, &name, err);
    if (status != TW_OK)
        return status;
    if (options->activation)
        tw_config_override(config, name ? "hidden_activation" : "hidden_act",
                           "--activation is given");
    else if (name && tw_config_has(config, "hidden_act"))
        tw_config_override(config, "hidden_act", "hidden_activation counts");
    if (name)
        return twp_activation(model, options, name,
                              "config.json, hidden_activation", err);
    if (strcmp(older, "gelu") == 0 && !options->activation)
        tw_config_override(config, "hidden_act", "the family's " TANH);
    if (strcmp(older, "gelu") == 0)
        return twp_activation(model, options, TANH,
                              "family (config.json says hidden_act 'gelu', "
                              "the family means its tanh form)",
                              err);
    return twp_activation(
        model, options, older,
        tw_config_has(config, "hidden_act") ? "config.json" : "family", err);
}

static enum tw_status resolve_base(struct tw_model *model,
                                   const struct tw_model_options *options,
                                   const struct twp_size_names *sizes,
                                   struct tw_error *err)
{
    enum tw_status status = twp_sizes(model, sizes, err);
    if (status == TW_OK)
        status = twp_norm_eps(model, TW_NORM_RMS, "rms_norm_eps", 1e-6, err);
    if (status == TW_OK)
        status =
            twp_only_bool(model, "use_bidirectional_attention", false, err);
    if (status == TW_OK)
        status = read_activation(model, options, err);
    model->is_gated = true;
    model->norm.offset = 1;
    model->embed_scale = (float)sqrt((double)model->d_model);
    return status;
}

static enum tw_status resolve_gemma(struct tw_model *model,
                                    const struct tw_model_options *options,
                                    struct tw_error *err)
{
    struct twp_size_names sizes = twp_llama_sizes;
    sizes.default_head_dim = 256;
    enum tw_status status = resolve_base(model, options, &sizes, err);
    return status == TW_OK ? twp_rope(model, &(struct twp_rope_rules){0}, err)
                           : status;
}

/* Soft caps and the scale of attention of 2 and 3. */
static enum tw_status read_caps(struct tw_model *model, double attention,
                                double final, struct tw_error *err)
{
    double scalar;
    enum tw_status status = twp_optional(model, "attn_logit_softcapping",
                                         attention, &attention, err);
    if (status == TW_OK)
        status =
            twp_optional(model, "final_logit_softcapping", final, &final, err);
    if (status == TW_OK)
        status = twp_factor(model, "query_pre_attn_scalar", 256, &scalar, err);
    if (status != TW_OK)
        return status;
    model->attention.soft_cap = (float)attention;
    model->attention.scale = (float)(1 / sqrt(scalar));
    model->head_form.soft_cap = (float) final;
    return TW_OK;
}

static enum tw_status resolve_gemma2(struct tw_model *model,
                                     const struct tw_model_options *options,
                                     struct tw_error *err)
{
    enum tw_status status = resolve_gemma(model, options, err);
    return status == TW_OK ? read_caps(model, 50, 30, err) : status;
}

/* Newer files have an object for each kind of layer, older ones two bases, of
 * which the scaling concerns the first. */
static enum tw_status resolve_ropes(struct tw_model *model,
                                    struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool has_newer = tw_config_has(config, "rope_parameters");
    const char *global = NULL, *local = NULL;
    double theta = 0, local_theta = 0;
    enum tw_status status =
        tw_config_real_or(config, "rope_theta", 1e6, &theta, err);
    if (status == TW_OK)
        status = tw_config_real_or(config, "rope_local_base_freq", 1e4,
                                   &local_theta, err);
    if (has_newer && tw_config_has(config, "rope_parameters.full_attention"))
        global = "rope_parameters.full_attention";
    else if (tw_config_has(config, "rope_scaling"))
        global = "rope_scaling";
    if (has_newer && tw_config_has(config, "rope_parameters.sliding_attention"))
        local = "rope_parameters.sliding_attention";
    if (status == TW_OK)
        status = twp_rope_of(model, global, theta, model->head_dim,
                             &model->rope, &model->inv_freq, err);
    size_t used = strlen(model->position_text);
    snprintf(model->position_text + used, sizeof model->position_text - used,
             "; sliding layers");
    if (status == TW_OK)
        status = twp_rope_of(model, local, local_theta, model->head_dim,
                             &model->local_rope, &model->local_inv_freq, err);
    return status;
}

static enum tw_status resolve_gemma3(struct tw_model *model,
                                     const struct tw_model_options *options,
                                     struct tw_error *err)
{
    struct twp_size_names sizes = twp_llama_sizes;
    sizes.default_head_dim = 256;
    sizes.default_heads = 8; /* Gemma 3 4B's text_config has none of these */
    sizes.default_kv_heads = 4;
    sizes.default_vocab = 262208;
    sizes.default_max_position = 131072;
    enum tw_status status = resolve_base(model, options, &sizes, err);
    if (status == TW_OK)
        status = read_caps(model, 0, 0, err);
    return status == TW_OK ? resolve_ropes(model, err) : status;
}

/* Gemma 3 with images keeps the text model's facts in an object. */
static enum tw_status resolve_wrapped(struct tw_model *model,
                                      const struct tw_model_options *options,
                                      struct tw_error *err)
{
    enum tw_status status =
        tw_config_enter(model->checkpoint.config, "text_config", err);
    return status == TW_OK ? resolve_gemma3(model, options, err) : status;
}

static enum tw_status bind_gemma(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", NULL, &form, err);
    return status == TW_OK ? twp_bind(model, &form, err) : status;
}

static void set_four_norms(struct twp_form *form)
{
    form->attn_out_norm = "post_attention_layernorm";
    form->ffn_norm = "pre_feedforward_layernorm";
    form->ffn_out_norm = "post_feedforward_layernorm";
}

static bool is_not_last(int64_t number, int64_t pattern)
{
    return (number + 1) % pattern != 0;
}

/* A local layer unless it is the last of `pattern` layers. */
static enum tw_status bind_windows(struct tw_model *model, int64_t pattern,
                                   const struct tw_rope *rope,
                                   struct tw_error *err)
{
    int64_t window;
    enum tw_status status = twp_window(model, 4096, &window, err);
    if (status != TW_OK)
        return status;
    const struct twp_windows windows = {.window = window,
                                        .is_sliding = is_not_last,
                                        .pattern = pattern,
                                        .rope = rope};
    return twp_windows(model, &windows, err);
}

static enum tw_status bind_gemma2(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", NULL, &form, err);
    set_four_norms(&form);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status == TW_OK ? bind_windows(model, 2, NULL, err) : status;
}

/* The modules of text models, and of those with images as older and newer
 * transformers write them. */
static const struct {
    const char *embed, *layers, *final_norm, *head;
} places[] = {
    {"model.embed_tokens", "model.layers", "model.norm", "lm_head"},
    {"language_model.model.embed_tokens", "language_model.model.layers",
     "language_model.model.norm", "language_model.lm_head"},
    {"model.language_model.embed_tokens", "model.language_model.layers",
     "model.language_model.norm", "lm_head"},
};

static void find_place(const struct tw_model *model, struct twp_form *form)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.weight", places[i].embed);
        if (!tw_tensors_find(&model->checkpoint.tensors, name))
            continue;
        form->embed = places[i].embed;
        form->layers = places[i].layers;
        form->final_norm = places[i].final_norm;
        form->head = places[i].head;
    }
}

static enum tw_status bind_gemma3(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    int64_t pattern = 6;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", NULL, &form, err);
    if (status == TW_OK)
        status = twp_size(model, "sliding_window_pattern", 6, &pattern, err);
    set_four_norms(&form);
    form.q_norm = "self_attn.q_norm";
    form.k_norm = "self_attn.k_norm";
    form.qk_norm = TWP_QK_HEAD;
    find_place(model, &form);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status == TW_OK
               ? bind_windows(model, pattern, &model->local_rope, err)
               : status;
}

const struct tw_family tw_family_gemma = {
    .model_type = "gemma",
    .note = "1 + weight norms, scaled embeddings, tanh GELU",
    .resolve = resolve_gemma,
    .bind = bind_gemma,
};

const struct tw_family tw_family_gemma2 = {
    .model_type = "gemma2",
    .note = "soft caps, norms around each part, local layers",
    .resolve = resolve_gemma2,
    .bind = bind_gemma2,
};

const struct tw_family tw_family_gemma3_text = {
    .model_type = "gemma3_text",
    .note = "norms of q and k, local layers with a rope of their own",
    .resolve = resolve_gemma3,
    .bind = bind_gemma3,
};

static const char *const images[] = {"vision_tower.", "multi_modal_projector.",
                                     NULL};

const struct tw_family tw_family_gemma3 = {
    .model_type = "gemma3",
    .note = "the text model in text_config; images are not used",
    .resolve = resolve_wrapped,
    .bind = bind_gemma3,
    .ignored = images,
};
