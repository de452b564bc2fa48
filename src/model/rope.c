/* Rotary frequencies from config.json: `default`, `linear` and `llama3`
 * scaling, at the top level (rope_theta, rope_scaling) or, as newer files
 * have it, in rope_parameters. Computed in single precision and in the order
 * of the Hugging Face code, so that angles at far positions agree with it. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/family.h"

/* Published scaling of Llama 3.1: long waves by factor, short ones not. */
struct llama3 {
    double factor, low, high, context;
};

static const char *rope_field(char *text, size_t size, const char *object,
                              const char *field)
{
    snprintf(text, size, "%s.%s", object, field);
    return text;
}

/* A positive number of the object. */
static enum tw_status positive(struct tw_config *config, const char *object,
                               const char *field, double *value,
                               struct tw_error *err)
{
    char name[64];
    rope_field(name, sizeof name, object, field);
    enum tw_status status = tw_config_real(config, name, value, err);
    if (status == TW_OK && !(*value > 0 && *value < 1e30))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: field '%s' is %g, expected more "
                            "than 0",
                            name, *value);
    return status;
}

static float scale_llama3(float freq, const struct llama3 *s)
{
    float wave = (float)(2 * 3.14159265358979323846) / freq;
    float low = (float)(s->context / s->low);
    float high = (float)(s->context / s->high);
    float scaled = freq / (float)s->factor;
    if (wave > low)
        return scaled;
    if (wave < high)
        return freq;
    float smooth = ((float)s->context / wave - (float)s->low) /
                   (float)(s->high - s->low);
    return (1 - smooth) * scaled + smooth * freq;
}

static enum tw_status read_llama3(struct tw_config *config, const char *object,
                                  struct llama3 *s, struct tw_error *err)
{
    enum tw_status status =
        positive(config, object, "factor", &s->factor, err);
    if (status == TW_OK)
        status = positive(config, object, "low_freq_factor", &s->low, err);
    if (status == TW_OK)
        status = positive(config, object, "high_freq_factor", &s->high, err);
    if (status == TW_OK)
        status = positive(config, object, "original_max_position_embeddings",
                          &s->context, err);
    if (status == TW_OK && s->high <= s->low)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: high_freq_factor is not above "
                              "low_freq_factor");
    return status;
}

/* How the object asks for the plain frequencies to be scaled. */
static enum tw_status read_kind(struct tw_config *config, const char *object,
                                const char **kind, struct tw_error *err)
{
    char name[64];
    const char *older;
    enum tw_status status = tw_config_text_or(
        config, rope_field(name, sizeof name, object, "type"), "default",
        &older, err);
    if (status == TW_OK)
        status = tw_config_text_or(
            config, rope_field(name, sizeof name, object, "rope_type"), older,
            kind, err);
    return status;
}

static enum tw_status apply_kind(struct tw_model *model, const char *object,
                                 const char *kind, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    struct llama3 s = {.factor = 1};
    bool is_llama3 = strcmp(kind, "llama3") == 0;
    enum tw_status status = TW_OK;
    if (strcmp(kind, "default") == 0)
        return TW_OK;
    if (is_llama3)
        status = read_llama3(config, object, &s, err);
    else if (strcmp(kind, "linear") == 0)
        status = positive(config, object, "factor", &s.factor, err);
    else
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: rope_type '%.60s' is not supported; "
                            "supported: default, linear, llama3",
                            kind);
    if (status != TW_OK)
        return status;
    for (int64_t i = 0; i < model->rope.dims / 2; i++)
        model->inv_freq[i] =
            is_llama3 ? scale_llama3(model->inv_freq[i], &s)
                      : model->inv_freq[i] / (float)s.factor;
    size_t used = strlen(model->rope_text);
    snprintf(model->rope_text + used, sizeof model->rope_text - used,
             ", %s x%g", kind, s.factor);
    return TW_OK;
}

static enum tw_status plain_frequencies(struct tw_model *model, double theta,
                                        struct tw_error *err)
{
    int64_t dims = model->head_dim;
    model->inv_freq = tw_alloc((size_t)dims / 2, sizeof *model->inv_freq);
    if (!model->inv_freq)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for rope");
    for (int64_t i = 0; i < dims / 2; i++) {
        float exponent = (float)(2 * i) / (float)dims;
        model->inv_freq[i] = 1.0f / (float)pow(theta, (double)exponent);
    }
    model->rope = (struct tw_rope){
        .dims = dims, .inv_freq = model->inv_freq, .scale = 1};
    snprintf(model->rope_text, sizeof model->rope_text, "theta %g", theta);
    return TW_OK;
}

/* Which object holds the scaling, and the base of the frequencies. */
static enum tw_status read_theta(struct tw_config *config, const char **object,
                                 double *theta, struct tw_error *err)
{
    bool has_older = tw_config_has(config, "rope_scaling");
    bool has_newer = tw_config_has(config, "rope_parameters");
    if (has_older && has_newer)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: both rope_scaling and "
                            "rope_parameters: which one holds?");
    *object = has_newer ? "rope_parameters" : "rope_scaling";
    enum tw_status status =
        tw_config_real_or(config, "rope_theta", 10000, theta, err);
    if (status == TW_OK && has_newer)
        status = tw_config_real_or(config, "rope_parameters.rope_theta", *theta,
                                   theta, err);
    if (status == TW_OK && !(*theta >= 1 && *theta < 1e30))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: rope_theta is %g, expected at "
                              "least 1",
                              *theta);
    return status;
}

static enum tw_status refuse_partial(struct tw_config *config,
                                     struct tw_error *err)
{
    double part;
    enum tw_status status =
        tw_config_real_or(config, "partial_rotary_factor", 1, &part, err);
    if (status == TW_OK && tw_config_has(config, "rope_parameters"))
        status = tw_config_real_or(config,
                                   "rope_parameters.partial_rotary_factor",
                                   part, &part, err);
    if (status == TW_OK && part != 1)
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "config.json: partial_rotary_factor %g is not "
                              "supported for this model_type",
                              part);
    return status;
}

enum tw_status twp_rope(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    const char *kind = "default", *object = "rope_scaling";
    double theta = 0;
    enum tw_status status = read_theta(config, &object, &theta, err);
    if (status == TW_OK)
        status = refuse_partial(config, err);
    if (status == TW_OK)
        status = read_kind(config, object, &kind, err);
    if (status == TW_OK)
        status = plain_frequencies(model, theta, err);
    if (status == TW_OK)
        status = apply_kind(model, object, kind, err);
    return status;
}
