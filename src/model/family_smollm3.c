/* SmolLM3: Llama in which every fourth layer has no rotary positions
 * (no_rope_layers: 1 where a layer has them), and can have a window there. */
#include <config.h>

#include <stdio.h>

#include "model/family_llama.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    enum tw_status status = twp_llama_shape(
        model, &twp_llama_sizes, &(struct twp_rope_rules){.theta = 2e6}, err);
    if (status == TW_OK)
        status = twp_activation_field(model, options, "hidden_act", err);
    return status;
}

/* Takes rope from the layers that have none. */
static enum tw_status bind_rope(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    int64_t interval = 4, has_rope;
    size_t listed = 0;
    enum tw_status status =
        tw_config_length(config, "no_rope_layers", &listed, err);
    if (status == TW_OK)
        status = twp_size(model, "no_rope_layer_interval", 4, &interval, err);
    if (status == TW_OK && listed != 0 && listed != (size_t)model->layers)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: no_rope_layers names %zu layers "
                              "of %lld",
                              listed, (long long)model->layers);
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++) {
        char name[48];
        has_rope = (l + 1) % interval != 0;
        snprintf(name, sizeof name, "no_rope_layers.%lld", (long long)l);
        if (listed)
            status = tw_config_int(config, name, &has_rope, err);
        if (has_rope == 0)
            model->layer[l].rope = NULL;
    }
    return status;
}

/* use_sliding_window: in the layers without rope, unless layer_types says
 * which. */
static enum tw_status bind_windows(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool is_used;
    int64_t window = 0;
    size_t types = 0;
    enum tw_status status =
        tw_config_bool_or(config, "use_sliding_window", false, &is_used, err);
    if (status == TW_OK && is_used)
        status = twp_window(model, 0, &window, err);
    if (status == TW_OK)
        status = tw_config_length(config, "layer_types", &types, err);
    if (status != TW_OK)
        return status;
    for (int64_t l = 0; types == 0 && l < model->layers; l++)
        if (!model->layer[l].rope)
            model->layer[l].attention.window = window;
    return twp_windows(model, &(struct twp_windows){.window = window}, err);
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    enum tw_status status =
        twp_llama_flags(model, true, "attention_bias", "mlp_bias", &form, err);
    if (status == TW_OK)
        status = twp_bind(model, &form, err);
    if (status == TW_OK)
        status = bind_rope(model, err);
    return status == TW_OK ? bind_windows(model, err) : status;
}

const struct tw_family tw_family_smollm3 = {
    .model_type = "smollm3",
    .note = "no rotary positions in every fourth layer",
    .resolve = resolve,
    .bind = bind,
};
