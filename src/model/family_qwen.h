/* Inside src/model: what Qwen 2, its sparse form and Qwen 3 share. */
#ifndef TW_MODEL_FAMILY_QWEN_H
#define TW_MODEL_FAMILY_QWEN_H

#include "model/family_llama.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Qwen 2's form (biases of q, k and v), and the windows that
 * use_sliding_window asks for, from layer max_window_layers on. */
TW_MUST_USE enum tw_status twp_qwen2_bind(struct tw_model *model,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
