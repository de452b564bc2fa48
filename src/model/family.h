/* Inside src/model: the table of families, and what their files share.
 *
 * A family is a row: its model_type, how config.json fills the model's facts,
 * how the checkpoint's tensors are bound. resolve runs first; between the two,
 * model.c checks the facts against the checkpoint and makes the layers. */
#ifndef TW_MODEL_FAMILY_H
#define TW_MODEL_FAMILY_H

#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_family {
    const char *model_type;
    /* Fills sizes, activation, rope, eps of norms, attention: all that
     * config.json says. model->layer is NULL still. */
    enum tw_status (*resolve)(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err);
    /* Binds every tensor; model->layer has room for all. */
    enum tw_status (*bind)(struct tw_model *model, struct tw_error *err);
};

extern const struct tw_family tw_family_llama;
extern const struct tw_family tw_family_llama_sparse;

/* The row of a model_type, or TW_ERR_UNSUPPORTED listing the table. */
TW_MUST_USE enum tw_status twp_family_find(const char *model_type,
                                           const struct tw_family **family,
                                           struct tw_error *err);

/* config.json's integer `field`, 1 to 2^31-1; fallback 0: it must be there. */
TW_MUST_USE enum tw_status twp_size(struct tw_model *model, const char *field,
                                    int64_t fallback, int64_t *value,
                                    struct tw_error *err);

/* Sets activation and its source: the override if there is one, else `name`
 * (fatrelu takes its argument from config.json's hidden_act_param). */
TW_MUST_USE enum tw_status
twp_activation(struct tw_model *model, const struct tw_model_options *options,
               const char *name, const char *source, struct tw_error *err);

/* rope_parameters, rope_scaling and rope_theta (default 10000) into
 * model->rope, head_dim dimensions. */
TW_MUST_USE enum tw_status twp_rope(struct tw_model *model,
                                    struct tw_error *err);

/* Takes "PREFIX.NAME" (prefix NULL: NAME) of shape [rows][cols], or [cols]
 * where rows is 0. */
TW_MUST_USE enum tw_status twp_take(struct tw_model *model, const char *prefix,
                                    const char *name, int64_t rows,
                                    int64_t cols, struct tw_matrix *matrix,
                                    struct tw_error *err);

/* Binds embed, which must have config.json's vocab_size rows, and the head:
 * `head` ("lm_head.weight") or, with is_tied, the embedding. */
TW_MUST_USE enum tw_status twp_embedding(struct tw_model *model,
                                         const char *embed, const char *head,
                                         bool is_tied, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
