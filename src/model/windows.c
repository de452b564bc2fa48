/* Which layers see only a window of the last keys. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "model/family.h"

/* layer_types' word for a layer. */
static enum tw_status read_type(struct tw_model *model, int64_t number,
                                bool *is_sliding, struct tw_error *err)
{
    char name[48];
    const char *type;
    snprintf(name, sizeof name, "layer_types.%lld", (long long)number);
    enum tw_status status =
        tw_config_text(model->checkpoint.config, name, &type, err);
    if (status != TW_OK)
        return status;
    *is_sliding = strcmp(type, "sliding_attention") == 0;
    if (!*is_sliding && strcmp(type, "full_attention") != 0)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: layer type '%.60s' is not supported; "
                            "supported: full_attention, sliding_attention",
                            type);
    return TW_OK;
}

enum tw_status twp_window(struct tw_model *model, int64_t fallback,
                          int64_t *window, struct tw_error *err)
{
    static const char field[] = "sliding_window";
    struct tw_config *config = model->checkpoint.config;
    *window = tw_config_is_null(config, field) ? 0 : fallback;
    return tw_config_has(config, field) ? twp_size(model, field, 0, window, err)
                                        : TW_OK;
}

enum tw_status twp_windows(struct tw_model *model,
                           const struct twp_windows *windows,
                           struct tw_error *err)
{
    size_t types = 0;
    enum tw_status status =
        tw_config_length(model->checkpoint.config, "layer_types", &types, err);
    if (status == TW_OK && types != 0 && types != (size_t)model->layers)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: layer_types names %zu layers of "
                              "%lld",
                              types, (long long)model->layers);
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++) {
        struct tw_layer *layer = &model->layer[l];
        bool slides = !types && windows->is_sliding &&
                      windows->is_sliding(l, windows->pattern);
        if (types)
            status = read_type(model, l, &slides, err);
        if (!slides)
            continue;
        layer->attention.window = windows->window;
        if (windows->rope)
            layer->rope = windows->rope;
    }
    return status;
}
