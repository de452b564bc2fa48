/* The published rules that scale rotary frequencies: linear, dynamic (NTK),
 * llama3, yarn, longrope. dynamic and longrope depend on the whole sequence's
 * length; up to the original number of positions they are fixed, and longer
 * sequences are refused (position_limit), for a row must not depend on the rows
 * after it. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/rope_internal.h"

#define PI 3.14159265358979323846

/* Published scaling of Llama 3.1: long waves by factor, short ones not. */
struct llama3 {
    double factor, low, high, context;
};

enum tw_status twp_rope_number(const struct twp_scaling *s, const char *field,
                               double fallback, double *value,
                               struct tw_error *err)
{
    struct tw_config *config = s->model->checkpoint.config;
    char name[80];
    snprintf(name, sizeof name, "%s.%s", s->object, field);
    enum tw_status status =
        fallback > 0 ? tw_config_real_or(config, name, fallback, value, err)
                     : tw_config_real(config, name, value, err);
    if (status == TW_OK && !(*value > 0 && *value < 1e30))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: field '%s' is %g, expected more "
                            "than 0",
                            name, *value);
    return status;
}

/* original_max_position_embeddings: beside the object where the family keeps it
 * there (Phi-3), else in it, else the model's positions. */
static enum tw_status original_positions(const struct twp_scaling *s,
                                         double *positions,
                                         struct tw_error *err)
{
    static const char field[] = "original_max_position_embeddings";
    char name[80];
    int64_t value;
    bool is_beside = tw_config_has(s->model->checkpoint.config, field);
    snprintf(name, sizeof name, "%s.%s", s->object, field);
    enum tw_status status = twp_size(s->model, is_beside ? field : name,
                                     s->model->max_position, &value, err);
    if (status == TW_OK)
        *positions = (double)value;
    return status;
}

static void limit_positions(struct tw_model *model, double positions,
                            const char *kind)
{
    model->position_limit = (int64_t)positions;
    snprintf(model->limit_reason, sizeof model->limit_reason,
             "rope_type %s depends on the sequence's length beyond them", kind);
}

static enum tw_status scale_linear(struct twp_scaling *s, struct tw_error *err)
{
    enum tw_status status = twp_rope_number(s, "factor", 0, &s->factor, err);
    for (int64_t i = 0; status == TW_OK && i < s->rope->dims / 2; i++)
        s->inv_freq[i] /= (float)s->factor;
    return status;
}

/* Up to the model's positions theta is as it was. */
static enum tw_status scale_dynamic(struct twp_scaling *s, struct tw_error *err)
{
    enum tw_status status = twp_rope_number(s, "factor", 0, &s->factor, err);
    if (status == TW_OK)
        limit_positions(s->model, (double)s->model->max_position, "dynamic");
    return status;
}

static float llama3_frequency(float freq, const struct llama3 *s)
{
    float wave = (float)(2 * PI) / freq;
    float low = (float)(s->context / s->low);
    float high = (float)(s->context / s->high);
    float scaled = freq / (float)s->factor;
    if (wave > low)
        return scaled;
    if (wave < high)
        return freq;
    float smooth =
        ((float)s->context / wave - (float)s->low) / (float)(s->high - s->low);
    return (1 - smooth) * scaled + smooth * freq;
}

static enum tw_status scale_llama3(struct twp_scaling *s, struct tw_error *err)
{
    struct llama3 l = {.factor = 1};
    enum tw_status status = twp_rope_number(s, "factor", 0, &l.factor, err);
    if (status == TW_OK)
        status = twp_rope_number(s, "low_freq_factor", 0, &l.low, err);
    if (status == TW_OK)
        status = twp_rope_number(s, "high_freq_factor", 0, &l.high, err);
    if (status == TW_OK)
        status = original_positions(s, &l.context, err);
    if (status == TW_OK && l.high <= l.low)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: high_freq_factor is not above "
                              "low_freq_factor");
    if (status != TW_OK)
        return status;
    s->factor = l.factor;
    for (int64_t i = 0; i < s->rope->dims / 2; i++)
        s->inv_freq[i] = llama3_frequency(s->inv_freq[i], &l);
    return TW_OK;
}

/* Fields of a yarn object. */
struct yarn {
    double original, fast, slow, attention, mscale, mscale_all;
    bool is_truncated;
};

static enum tw_status read_yarn(struct twp_scaling *s, struct yarn *y,
                                struct tw_error *err)
{
    struct tw_config *config = s->model->checkpoint.config;
    char name[80];
    enum tw_status status = original_positions(s, &y->original, err);
    if (status == TW_OK)
        status = twp_rope_number(s, "factor",
                                 (double)s->model->max_position / y->original,
                                 &s->factor, err);
    const struct {
        const char *field;
        double fallback, *value;
    } fields[] = {{"beta_fast", 32, &y->fast}, {"beta_slow", 1, &y->slow}};
    for (int i = 0; i < 2 && status == TW_OK; i++)
        status = twp_rope_number(s, fields[i].field, fields[i].fallback,
                                 fields[i].value, err);
    const struct {
        const char *field;
        double *value;
    } optional[] = {{"attention_factor", &y->attention},
                    {"mscale", &y->mscale},
                    {"mscale_all_dim", &y->mscale_all}};
    for (int i = 0; i < 3 && status == TW_OK; i++) {
        snprintf(name, sizeof name, "%s.%s", s->object, optional[i].field);
        status = tw_config_real_or(config, name, 0, optional[i].value, err);
    }
    snprintf(name, sizeof name, "%s.truncate", s->object);
    if (status == TW_OK)
        status = tw_config_bool_or(config, name, true, &y->is_truncated, err);
    return status;
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* The dimension that turns `turns` times over the original positions. */
static double yarn_dimension(const struct twp_scaling *s, const struct yarn *y,
                             double turns)
{
    return (double)s->rope->dims * log(y->original / (turns * 2 * PI)) /
           (2 * log(s->theta));
}

/* Fast dimensions keep their frequency, slow ones are divided by factor, those
 * between are mixed. */
static enum tw_status scale_yarn(struct twp_scaling *s, struct tw_error *err)
{
    struct yarn y = {.attention = 0};
    enum tw_status status = read_yarn(s, &y, err);
    if (status != TW_OK)
        return status;
    double low = yarn_dimension(s, &y, y.fast);
    double high = yarn_dimension(s, &y, y.slow);
    low = fmax(y.is_truncated ? floor(low) : low, 0);
    high =
        fmin(y.is_truncated ? ceil(high) : high, (double)(s->rope->dims - 1));
    if (low == high)
        high += 0.001;
    for (int64_t i = 0; i < s->rope->dims / 2; i++) {
        float exponent = (float)(2 * i) / (float)s->rope->dims;
        float plain = (float)pow(s->theta, (double)exponent);
        float ramp = ((float)i - (float)low) / (float)(high - low);
        float keep = 1 - fminf(fmaxf(ramp, 0), 1);
        s->inv_freq[i] =
            1 / ((float)s->factor * plain) * (1 - keep) + 1 / plain * keep;
    }
    if (y.attention > 0)
        s->rope->scale = (float)y.attention;
    else if (y.mscale > 0 && y.mscale_all > 0)
        s->rope->scale = (float)(yarn_scale(s->factor, y.mscale) /
                                 yarn_scale(s->factor, y.mscale_all));
    else
        s->rope->scale = (float)yarn_scale(s->factor, 1);
    return TW_OK;
}

/* Phi-3: a factor of its own for every frequency, the short ones up to the
 * original positions. */
static enum tw_status scale_longrope(struct twp_scaling *s,
                                     struct tw_error *err)
{
    double original, attention, factor;
    size_t count = 0;
    char name[80];
    struct tw_config *config = s->model->checkpoint.config;
    int64_t half = s->rope->dims / 2;
    snprintf(name, sizeof name, "%s.short_factor", s->object);
    enum tw_status status = tw_config_length(config, name, &count, err);
    if (status == TW_OK && (int64_t)count != half)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: %s has %zu numbers, expected %lld",
                              name, count, (long long)half);
    if (status == TW_OK)
        status = original_positions(s, &original, err);
    if (status == TW_OK)
        status = twp_rope_number(s, "factor",
                                 (double)s->model->max_position / original,
                                 &s->factor, err);
    if (status != TW_OK)
        return status;
    attention = s->factor <= 1 ? 1 : sqrt(1 + log(s->factor) / log(original));
    status = twp_rope_number(s, "attention_factor", attention, &attention, err);
    for (int64_t i = 0; status == TW_OK && i < half; i++) {
        char number[48];
        snprintf(number, sizeof number, "short_factor.%lld", (long long)i);
        status = twp_rope_number(s, number, 0, &factor, err);
        float exponent = (float)(2 * i) / (float)s->rope->dims;
        if (status == TW_OK)
            s->inv_freq[i] =
                1 / ((float)factor * (float)pow(s->theta, (double)exponent));
    }
    s->rope->scale = (float)attention;
    limit_positions(s->model, original, "longrope");
    return status;
}

/* Each frequency has a factor of its own, which GGUF files store. */
static enum tw_status scale_by_factors(struct twp_scaling *s,
                                       struct tw_error *err)
{
    static const char name[] = "rope_freqs.weight";
    const struct tw_tensor *t;
    const int64_t half = s->rope->dims / 2;
    enum tw_status status = tw_tensors_take(&s->model->checkpoint.tensors, name,
                                            1, &half, false, &t, err);
    for (int64_t i = 0; status == TW_OK && i < half; i++) {
        float factor;
        size_t size = tw_dtype_size(t->dtype);
        tw_widen(&factor, (const uint8_t *)t->data + (size_t)i * size, t->dtype,
                 1);
        if (!(factor > 0 && factor < 1e30f))
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: tensor '%s' is %g at [%lld], expected "
                                "more than 0",
                                t->file, name, (double)factor, (long long)i);
        s->inv_freq[i] /= factor;
        if ((double)factor > s->factor)
            s->factor = factor;
    }
    return status;
}

enum tw_status twp_rope_scale(struct twp_scaling *s, const char *kind,
                              struct tw_error *err)
{
    static const struct {
        const char *kind;
        enum tw_status (*scale)(struct twp_scaling *s, struct tw_error *err);
    } rules[] = {
        {"linear", scale_linear},
        {"dynamic", scale_dynamic},
        {"llama3", scale_llama3},
        {"yarn", scale_yarn},
        {"longrope", scale_longrope},
        {"su", scale_longrope},
        {"frequency_factors", scale_by_factors},
    };
    if (strcmp(kind, "default") == 0)
        return TW_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(kind, rules[i].kind) == 0)
            return rules[i].scale(s, err);
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "config.json: rope_type '%.60s' is not supported; "
                        "supported: default, linear, dynamic, llama3, yarn, "
                        "longrope",
                        kind);
}
