/* Qwen 2: Llama with biases of q, k and v. Qwen 3: norms of every head's q and
 * k instead. Both can have sliding windows in their later layers. */
#include <config.h>

#include "model/family_qwen.h"

static bool is_late(int64_t number, int64_t first)
{
    return number >= first;
}

static enum tw_status bind_windows(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool is_used;
    int64_t window = 0;
    int64_t first = 0;
    enum tw_status status =
        tw_config_bool_or(config, "use_sliding_window", false, &is_used, err);
    if (status == TW_OK && is_used)
        status = twp_window(model, 4096, &window, err);
    if (status == TW_OK && is_used)
        status = tw_config_int_or(config, "max_window_layers", 28, &first, err);
    if (status != TW_OK)
        return status;
    const struct twp_windows windows = {
        .window = window, .is_sliding = is_late, .pattern = first};
    return twp_windows(model, &windows, err);
}

enum tw_status twp_qwen2_bind_form(struct tw_model *model, const char *ffn_bias,
                                   struct twp_form *form, struct tw_error *err)
{
    enum tw_status status =
        twp_llama_flags(model, false, NULL, ffn_bias, form, err);
    form->has_qkv_bias = true;
    if (status == TW_OK)
        status = twp_bind(model, form, err);
    return status == TW_OK ? bind_windows(model, err) : status;
}

static enum tw_status bind_qwen2(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    return twp_qwen2_bind_form(model, NULL, &form, err);
}

const struct tw_family tw_family_qwen2 = {
    .model_type = "qwen2",
    .note = "Qwen 1.5, 2, 2.5: biases of q, k, v",
    .resolve = twp_llama_resolve,
    .bind = bind_qwen2,
};

static enum tw_status resolve_qwen3(struct tw_model *model,
                                    const struct tw_model_options *options,
                                    struct tw_error *err)
{
    struct twp_size_names sizes = twp_llama_sizes;
    sizes.default_head_dim = 128;
    enum tw_status status =
        twp_llama_shape(model, &sizes, &(struct twp_rope_rules){0}, err);
    if (status == TW_OK)
        status = twp_activation_field(model, options, "hidden_act", err);
    return status;
}

static enum tw_status bind_qwen3(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, false, "attention_bias", NULL, &form, err);
    form.q_norm = "self_attn.q_norm";
    form.k_norm = "self_attn.k_norm";
    form.qk_norm = TWP_QK_HEAD;
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    return status == TW_OK ? bind_windows(model, err) : status;
}

const struct tw_family tw_family_qwen3 = {
    .model_type = "qwen3",
    .note = "norms of each head's q and k",
    .resolve = resolve_qwen3,
    .bind = bind_qwen3,
};
