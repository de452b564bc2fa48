/* Inside src/model: what Qwen 2, its sparse form and Qwen 3 share. */
#ifndef TW_MODEL_FAMILY_QWEN_H
#define TW_MODEL_FAMILY_QWEN_H

#include "model/family_llama.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Binds `form` with biases of q, k and v, and the windows that
 * use_sliding_window asks for, from layer max_window_layers on. ffn_bias: the
 * field of feed-forward biases, or NULL. */
TW_MUST_USE enum tw_status twp_qwen2_bind_form(struct tw_model *model,
                                               const char *ffn_bias,
                                               struct twp_form *form,
                                               struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
