/* Rotary frequencies from config.json, at the top level (rope_theta,
 * rope_scaling) or, as newer files have it, in rope_parameters. Computed in
 * single precision and in the order of the Hugging Face code, so that angles at
 * far positions agree with it. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/rope_internal.h"

static const char *field_of(char *text, size_t size, const char *object,
                            const char *field)
{
    snprintf(text, size, "%s.%s", object, field);
    return text;
}

/* How the object asks for the plain frequencies to be scaled. */
static enum tw_status read_kind(struct tw_config *config, const char *object,
                                const char **kind, struct tw_error *err)
{
    char name[80];
    const char *older;
    enum tw_status status =
        tw_config_text_or(config, field_of(name, sizeof name, object, "type"),
                          "default", &older, err);
    if (status == TW_OK)
        status = tw_config_text_or(
            config, field_of(name, sizeof name, object, "rope_type"), older,
            kind, err);
    return status;
}

static enum tw_status plain_frequencies(int64_t dims, double theta,
                                        float **inv_freq, struct tw_error *err)
{
    float *freq = tw_alloc((size_t)dims / 2, sizeof *freq);
    if (!freq)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for rope");
    for (int64_t i = 0; i < dims / 2; i++) {
        float exponent = (float)(2 * i) / (float)dims;
        freq[i] = 1.0f / (float)pow(theta, (double)exponent);
    }
    *inv_freq = freq;
    return TW_OK;
}

static void note_rope(struct tw_model *model, const struct twp_scaling *s,
                      const char *kind)
{
    char *text = model->position_text;
    size_t used = strlen(text), size = sizeof model->position_text;
    used += (size_t)snprintf(text + used, size - used, "%stheta %g",
                             used ? " " : "rope ", s->theta);
    if (used < size && s->rope->dims != model->head_dim)
        used += (size_t)snprintf(text + used, size - used, ", %lld of %lld",
                                 (long long)s->rope->dims,
                                 (long long)model->head_dim);
    if (used < size && strcmp(kind, "default") != 0)
        snprintf(text + used, size - used, ", %s x%g", kind, s->factor);
}

enum tw_status twp_rope_of(struct tw_model *model, const char *object,
                           double theta, int64_t dims, struct tw_rope *rope,
                           float **inv_freq, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    const char *kind = "default";
    char name[80];
    enum tw_status status = TW_OK;
    if (dims < 2 || dims % 2 != 0 || dims > model->head_dim)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %lld rotary dimensions of a "
                            "head_dim of %lld: an odd number, or too many",
                            (long long)dims, (long long)model->head_dim);
    if (object)
        status = tw_config_real_or(
            config, field_of(name, sizeof name, object, "rope_theta"), theta,
            &theta, err);
    if (status == TW_OK && !(theta >= 1 && theta < 1e30))
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "config.json: rope_theta is %g, expected at "
                              "least 1",
                              theta);
    if (status == TW_OK && object)
        status = read_kind(config, object, &kind, err);
    if (status == TW_OK)
        status = plain_frequencies(dims, theta, inv_freq, err);
    if (status != TW_OK)
        return status;
    *rope = (struct tw_rope){.dims = dims, .inv_freq = *inv_freq, .scale = 1};
    struct twp_scaling s = {.model = model,
                            .object = object,
                            .theta = theta,
                            .rope = rope,
                            .inv_freq = *inv_freq};
    status = twp_rope_scale(&s, kind, err);
    if (status == TW_OK)
        note_rope(model, &s, kind);
    return status;
}

/* Which object holds the scaling, and the base of the frequencies outside. */
static enum tw_status find_object(struct tw_config *config, const char **object,
                                  double *theta, struct tw_error *err)
{
    bool has_older = tw_config_has(config, "rope_scaling");
    bool has_newer = tw_config_has(config, "rope_parameters");
    if (has_older && has_newer)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: both rope_scaling and "
                            "rope_parameters: which one holds?");
    *object = has_newer ? "rope_parameters" : "rope_scaling";
    return tw_config_real_or(config, "rope_theta", *theta, theta, err);
}

/* The rotated dimensions: the family's, or a fraction of the head. */
static enum tw_status find_dims(struct tw_model *model, const char *object,
                                const struct twp_rope_rules *rules,
                                int64_t *dims, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    double part = rules->fraction > 0 ? rules->fraction : 1;
    char name[80];
    *dims = rules->dims;
    if (rules->dims > 0)
        return TW_OK;
    enum tw_status status =
        tw_config_real_or(config, "partial_rotary_factor", part, &part, err);
    if (status == TW_OK && tw_config_has(config, object))
        status = tw_config_real_or(
            config,
            field_of(name, sizeof name, object, "partial_rotary_factor"), part,
            &part, err);
    if (status == TW_OK && rules->fraction == 0 && part != 1)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: partial_rotary_factor %g is not "
                            "supported for this model_type",
                            part);
    if (status == TW_OK && !(part > 0 && part <= 1))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: partial_rotary_factor %g is not "
                            "between 0 and 1",
                            part);
    *dims = (int64_t)((double)model->head_dim * part);
    return status;
}

enum tw_status twp_rope(struct tw_model *model,
                        const struct twp_rope_rules *rules,
                        struct tw_error *err)
{
    const char *object = NULL;
    double theta = rules->theta > 0 ? rules->theta : 10000;
    int64_t dims = 0;
    enum tw_status status =
        find_object(model->checkpoint.config, &object, &theta, err);
    if (status == TW_OK)
        status = find_dims(model, object, rules, &dims, err);
    if (status == TW_OK)
        status = twp_rope_of(model, object, theta, dims, &model->rope,
                             &model->inv_freq, err);
    model->rope.is_interleaved = rules->is_interleaved;
    return status;
}
