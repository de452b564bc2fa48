/* Inside src/model: the parts of Llama that its relatives share. */
#ifndef TW_MODEL_FAMILY_LLAMA_H
#define TW_MODEL_FAMILY_LLAMA_H

#include "model/family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Llama's tensor names, without biases; a relative copies and changes it. */
extern const struct twp_form twp_llama_form;
/* Llama's field names. */
extern const struct twp_size_names twp_llama_sizes;

/* Sizes by `sizes`, RMS norms with rms_norm_eps, rope by `rules`: all of
 * config.json but the activation and is_gated. */
TW_MUST_USE enum tw_status twp_llama_shape(struct tw_model *model,
                                           const struct twp_size_names *sizes,
                                           const struct twp_rope_rules *rules,
                                           struct tw_error *err);
/* The same with Llama's own, then a gated layer with hidden_act. */
TW_MUST_USE enum tw_status
twp_llama_resolve(struct tw_model *model,
                  const struct tw_model_options *options, struct tw_error *err);
/* tie_word_embeddings (is_tied where config.json says nothing), the field of
 * biases of q, k, v and o, and that of the feed-forward layer, into the form.
 * NULL: the family has no such field, the form keeps what it has. */
TW_MUST_USE enum tw_status twp_llama_flags(struct tw_model *model, bool is_tied,
                                           const char *attn_bias,
                                           const char *ffn_bias,
                                           struct twp_form *form,
                                           struct tw_error *err);
/* Binds `form` with Llama's flags. */
TW_MUST_USE enum tw_status twp_llama_bind_form(struct tw_model *model,
                                               struct twp_form *form,
                                               struct tw_error *err);
/* The same with Llama's own form. */
TW_MUST_USE enum tw_status twp_llama_bind(struct tw_model *model,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
