/* Names and formulas of the activation functions; doubles, the specification
 * that vectorised forms are tested against. */
#include <config.h>

#include "kernels/activation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum tw_act act;
    bool is_canonical;
} names[] = {
    {"relu", TW_ACT_RELU, true},
    {"relu2", TW_ACT_RELU2, true},
    {"fatrelu", TW_ACT_FATRELU, true},
    {"silu", TW_ACT_SILU, true},
    {"swish", TW_ACT_SILU, false},
    {"gelu", TW_ACT_GELU, true},
    {"gelu_python", TW_ACT_GELU, false},
    {"gelu_tanh", TW_ACT_GELU_TANH, true},
    {"gelu_new", TW_ACT_GELU_TANH, false},
    {"gelu_fast", TW_ACT_GELU_TANH, false},
    {"gelu_pytorch_tanh", TW_ACT_GELU_TANH, false},
    {"quick_gelu", TW_ACT_QUICK_GELU, true},
};
#define NAMES (sizeof names / sizeof names[0])

static enum tw_status unsupported(const char *text, struct tw_error *err)
{
    char list[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < NAMES; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s%s",
                               i ? ", " : "", names[i].name,
                               names[i].act == TW_ACT_FATRELU ? ":T" : "");
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "activation '%.60s' is not supported: use one of %s",
                        text, list);
}

/* The threshold after "fatrelu:", or NaN where it isn't a finite number. */
static double threshold_of(const char *text)
{
    char *end;
    if (!*text || strchr(" \t\n", *text))
        return NAN;
    double value = strtod(text, &end);
    return *end || !isfinite((float)value) ? NAN : value;
}

/* Of several names for one function, ours. */
static const char *canonical_name(enum tw_act act)
{
    for (size_t i = 0; i < NAMES; i++)
        if (names[i].act == act && names[i].is_canonical)
            return names[i].name;
    return "?";
}

enum tw_status tw_activation_parse(const char *text,
                                   struct tw_activation *activation,
                                   struct tw_error *err)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < NAMES; i++) {
        if (strlen(names[i].name) != length ||
            strncmp(names[i].name, text, length) != 0)
            continue;
        struct tw_activation out = {.act = names[i].act};
        bool has_threshold = out.act == TW_ACT_FATRELU;
        if (has_threshold != (colon != NULL))
            break;
        snprintf(out.name, sizeof out.name, "%s", canonical_name(out.act));
        if (has_threshold) {
            double value = threshold_of(colon + 1);
            if (!(value >= 0))
                return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                    "activation '%.60s': the threshold must "
                                    "be a number >= 0",
                                    text);
            out.arg = (float)value;
            snprintf(out.name, sizeof out.name, "fatrelu:%.9g", value + 0.0);
        }
        *activation = out;
        return TW_OK;
    }
    return unsupported(text, err);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double tw_activation_apply(const struct tw_activation *activation, double x)
{
    if (isnan(x))
        return x;
    switch (activation->act) {
    case TW_ACT_RELU:
        return x > 0 ? x : 0;
    case TW_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case TW_ACT_FATRELU:
        return x > (double)activation->arg ? x : 0;
    case TW_ACT_SILU:
        return x * sigmoid(x);
    case TW_ACT_GELU:
        return x * 0.5 * erfc(-x * 0.70710678118654752440);
    case TW_ACT_GELU_TANH:
        // 0.5 (1 + tanh z) = sigmoid(2 z), which doesn't cancel to 0
        return x * sigmoid(1.59576912160573071176 * (x + 0.044715 * x * x * x));
    case TW_ACT_QUICK_GELU:
        return x * sigmoid(1.702 * x);
    case TW_ACTS:
        break;
    }
    return x;
}

bool tw_activation_is_sparse(enum tw_act act)
{
    return act == TW_ACT_RELU || act == TW_ACT_RELU2 || act == TW_ACT_FATRELU;
}
