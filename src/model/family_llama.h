/* Inside src/model: the parts of Llama that its relatives share. */
#ifndef TW_MODEL_FAMILY_LLAMA_H
#define TW_MODEL_FAMILY_LLAMA_H

#include "model/family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All of config.json but the activation and is_gated. */
TW_MUST_USE enum tw_status twp_llama_resolve_shape(struct tw_model *model,
                                                   struct tw_error *err);
/* Binds Llama's tensor names; without is_gated there is no gate_proj. */
TW_MUST_USE enum tw_status twp_llama_bind(struct tw_model *model,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
