/* What the files of the families share of config.json: sizes, norms, the
 * activation. */
#include <config.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/family.h"

enum tw_status twp_size(struct tw_model *model, const char *field,
                        int64_t fallback, int64_t *value, struct tw_error *err)
{
    int64_t size;
    struct tw_config *config = model->checkpoint.config;
    enum tw_status status =
        fallback ? tw_config_int_or(config, field, fallback, &size, err)
                 : tw_config_int(config, field, &size, err);
    if (status != TW_OK)
        return status;
    if (size < 1 || size > INT_MAX)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: field '%s' is %lld, expected 1 to "
                            "2^31-1",
                            field, (long long)size);
    *value = size;
    return TW_OK;
}

const char *twp_either(struct tw_model *model, const char *first,
                       const char *second)
{
    struct tw_config *config = model->checkpoint.config;
    return !tw_config_has(config, first) && tw_config_has(config, second)
               ? second
               : first;
}

static enum tw_status derive_sizes(struct tw_model *model,
                                   const struct twp_size_names *names,
                                   struct tw_error *err)
{
    int64_t d_ff = names->default_d_ff;
    int64_t head_dim = names->default_head_dim;
    if (d_ff < 0)
        d_ff = -d_ff * model->d_model;
    if (head_dim == 0)
        head_dim = model->d_model / model->heads;
    if (head_dim == 0)
        head_dim = 1;
    model->d_ff = d_ff;
    model->kv_heads =
        names->default_kv_heads ? names->default_kv_heads : model->heads;
    model->head_dim = head_dim;
    enum tw_status status = TW_OK;
    if (names->d_ff)
        status = twp_size(model, names->d_ff, d_ff, &model->d_ff, err);
    if (status == TW_OK && names->kv_heads)
        status = twp_size(model, names->kv_heads, model->kv_heads,
                          &model->kv_heads, err);
    if (status == TW_OK && names->head_dim)
        status =
            twp_size(model, names->head_dim, head_dim, &model->head_dim, err);
    return status;
}

static enum tw_status check_heads(const struct tw_model *model,
                                  struct tw_error *err)
{
    if (model->heads % model->kv_heads != 0)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %lld attention heads cannot share "
                            "%lld key-value heads",
                            (long long)model->heads,
                            (long long)model->kv_heads);
    return TW_OK;
}

/* Some tensor holds the heads' weights: sizes past the largest are a lie, which
 * nothing must be allocated for. */
static enum tw_status check_file(const struct tw_model *model,
                                 struct tw_error *err)
{
    const struct tw_tensors *tensors = &model->checkpoint.tensors;
    int64_t largest = 0, weights;
    for (size_t i = 0; i < tensors->count; i++)
        if (tensors->tensor[i].elements > largest)
            largest = tensors->tensor[i].elements;
    if (__builtin_mul_overflow(model->heads * model->head_dim, model->d_model,
                               &weights) ||
        weights > largest)
        return tw_error_set(err, TW_ERR_MISMATCH,
                            "config.json: %lld heads of %lld over a width of "
                            "%lld, but no tensor is that large",
                            (long long)model->heads, (long long)model->head_dim,
                            (long long)model->d_model);
    return TW_OK;
}

enum tw_status twp_sizes(struct tw_model *model,
                         const struct twp_size_names *names,
                         struct tw_error *err)
{
    const struct {
        const char *field;
        int64_t fallback, *value;
    } sizes[] = {
        {names->d_model, 0, &model->d_model},
        {names->layers, 0, &model->layers},
        {names->heads, names->default_heads, &model->heads},
        {"vocab_size", names->default_vocab, &model->vocab},
        {names->max_position, names->default_max_position,
         &model->max_position},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!sizes[i].field)
            continue;
        enum tw_status status = twp_size(
            model, sizes[i].field, sizes[i].fallback, sizes[i].value, err);
        if (status != TW_OK)
            return status;
    }
    enum tw_status status = derive_sizes(model, names, err);
    if (status == TW_OK)
        status = check_heads(model, err);
    if (status == TW_OK)
        status = check_file(model, err);
    if (status == TW_OK &&
        tw_config_has(model->checkpoint.config, "quantization_config"))
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "config.json: quantization_config is not "
                              "supported: weights must be F32, BF16 or F16");
    model->attention = (struct tw_attention){
        .heads = model->heads,
        .kv_heads = model->kv_heads,
        .head_dim = model->head_dim,
        .scale = (float)(1 / sqrt((double)model->head_dim)),
    };
    return status;
}

enum tw_status twp_optional(struct tw_model *model, const char *field,
                            double fallback, double *value,
                            struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    if (tw_config_is_null(config, field))
        fallback = 0;
    enum tw_status status =
        tw_config_real_or(config, field, fallback, value, err);
    if (status == TW_OK && !(*value >= 0 && *value <= INT_MAX))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %s %g is not between 0 and 2^31-1",
                            field, *value);
    return status;
}

enum tw_status twp_factor(struct tw_model *model, const char *field,
                          double fallback, double *value, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    enum tw_status status =
        fallback > 0 ? tw_config_real_or(config, field, fallback, value, err)
                     : tw_config_real(config, field, value, err);
    if (status == TW_OK && !(*value > 0 && *value < 1e9))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %s %g is not more than 0", field,
                            *value);
    return status;
}

enum tw_status twp_norm_eps(struct tw_model *model, enum tw_norm_kind kind,
                            const char *field, double fallback,
                            struct tw_error *err)
{
    double eps;
    enum tw_status status =
        tw_config_real_or(model->checkpoint.config, field, fallback, &eps, err);
    if (status == TW_OK && !(eps >= 0 && eps < 1))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %s %g is not between 0 and 1", field,
                            eps);
    if (status == TW_OK)
        model->norm = (struct tw_norm){.kind = kind, .eps = (float)eps};
    return status;
}

enum tw_status twp_only_bool(struct tw_model *model, const char *field,
                             bool wanted, struct tw_error *err)
{
    bool is_set;
    enum tw_status status = tw_config_bool_or(model->checkpoint.config, field,
                                              wanted, &is_set, err);
    if (status == TW_OK && is_set != wanted)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: %s %s is not supported for "
                            "model_type '%s'",
                            field, is_set ? "true" : "false",
                            model->model_type);
    return status;
}

/* "fatrelu" alone needs hidden_act_param. */
static enum tw_status with_argument(struct tw_model *model, const char *name,
                                    char *text, size_t size,
                                    struct tw_error *err)
{
    double arg;
    snprintf(text, size, "%s", name);
    if (strcmp(name, "fatrelu") != 0)
        return TW_OK;
    enum tw_status status =
        tw_config_real(model->checkpoint.config, "hidden_act_param", &arg, err);
    if (status == TW_OK)
        snprintf(text, size, "fatrelu:%.9g", arg);
    return status;
}

/* A GGUF file's config says where the activation came from. */
static const char *origin_of_activation(const struct tw_model *model)
{
    static const char *const fields[] = {"hidden_act", "hidden_activation",
                                         "activation_function", "activation"};
    const char *origin = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !origin; i++)
        origin = tw_config_origin(model->checkpoint.config, fields[i]);
    return origin;
}

enum tw_status twp_activation(struct tw_model *model,
                              const struct tw_model_options *options,
                              const char *name, const char *source,
                              struct tw_error *err)
{
    char text[128];
    struct tw_error cause = {0};
    const char *wanted = options->activation;
    if (wanted) {
        snprintf(model->activation_source, sizeof model->activation_source,
                 "override");
        return tw_activation_parse(wanted, &model->activation, err);
    }
    enum tw_status status = with_argument(model, name, text, sizeof text, err);
    if (status != TW_OK)
        return status;
    const char *origin = origin_of_activation(model);
    model->is_activation_assumed =
        origin && strncmp(origin, "assumed", strlen("assumed")) == 0;
    snprintf(model->activation_source, sizeof model->activation_source, "%s",
             origin ? origin : source);
    status = tw_activation_parse(text, &model->activation, &cause);
    if (status != TW_OK)
        return tw_error_set(err, status, "config.json: %s", cause.text);
    return TW_OK;
}

enum tw_status twp_activation_or(struct tw_model *model,
                                 const struct tw_model_options *options,
                                 const char *field, const char *fallback,
                                 struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    const char *name;
    enum tw_status status =
        tw_config_text_or(config, field, fallback, &name, err);
    if (status != TW_OK)
        return status;
    return twp_activation(
        model, options, name,
        tw_config_has(config, field) ? "config.json" : "family's default", err);
}

enum tw_status twp_activation_field(struct tw_model *model,
                                    const struct tw_model_options *options,
                                    const char *field, struct tw_error *err)
{
    const char *name;
    enum tw_status status =
        tw_config_text(model->checkpoint.config, field, &name, err);
    if (status == TW_OK && options->activation)
        tw_config_override(model->checkpoint.config, field,
                           "--activation is given");
    if (status == TW_OK)
        status = twp_activation(model, options, name, "config.json", err);
    return status;
}
