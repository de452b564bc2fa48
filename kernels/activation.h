/* Activation functions of the feed-forward layers, by their Hugging Face
 * names. The pattern of a layer is activation(x) != 0. */
#ifndef TW_KERNELS_ACTIVATION_H
#define TW_KERNELS_ACTIVATION_H

#include <stdbool.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_act {
    TW_ACT_RELU,      /* max(x, 0) */
    TW_ACT_RELU2,     /* max(x, 0)^2 */
    TW_ACT_FATRELU,   /* x > T ? x : 0 (ProSparse) */
    TW_ACT_SILU,      /* x sigmoid(x) */
    TW_ACT_GELU,      /* x Phi(x), by erf */
    TW_ACT_GELU_TANH, /* its tanh approximation */
    TW_ACT_QUICK_GELU, /* x sigmoid(1.702 x) */
    TW_ACTS
};

struct tw_activation {
    enum tw_act act;
    float arg;     /* fatrelu: T; else 0 */
    char name[40]; /* canonical: "relu", "fatrelu:0.01", "gelu_tanh" */
};

/* Parses NAME or NAME:ARG: relu, relu2, fatrelu:T, silu (swish), gelu
 * (gelu_python), gelu_new, gelu_fast, gelu_pytorch_tanh, gelu_tanh,
 * quick_gelu. Returns TW_OK, or TW_ERR_UNSUPPORTED naming it and listing what
 * is supported, never a default. */
TW_MUST_USE enum tw_status tw_activation_parse(const char *text,
                                               struct tw_activation *activation,
                                               struct tw_error *err);

/* One value, in the formula's own form: the specification. NaN gives NaN. */
double tw_activation_apply(const struct tw_activation *activation, double x);

/* True where the function is exactly 0 on a half-line, so that TwELL pays. */
bool tw_activation_is_sparse(enum tw_act act);

#ifdef __cplusplus
}
#endif
#endif
