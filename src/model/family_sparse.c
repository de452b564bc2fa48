/* The paper's own release (model_type llama_sparse_relu, qwen2_sparse_relu):
 * Llama or Qwen 2 whose code applies ReLU whatever hidden_act says, gated or
 * plain. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "model/family_qwen.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    const char *said;
    char source[160] = "family";
    enum tw_status status = twp_llama_shape(model, &twp_llama_sizes,
                                            &(struct twp_rope_rules){0}, err);
    if (status == TW_OK)
        status = twp_size(model, "sparsity_new_intermediate_size", model->d_ff,
                          &model->d_ff, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "sparsity_gated_mlp", true,
                                   &model->is_gated, err);
    if (status == TW_OK)
        status = tw_config_text_or(config, "hidden_act", "relu", &said, err);
    if (status != TW_OK)
        return status;
    if (strcmp(said, "relu") != 0)
        snprintf(source, sizeof source,
                 "family (config.json says hidden_act '%.40s', the family's "
                 "code is ReLU)",
                 said);
    return twp_activation(model, options, "relu", source, err);
}

const struct tw_family tw_family_llama_sparse = {
    .model_type = "llama_sparse_relu",
    .note = "the paper's: ReLU whatever hidden_act says, gated or plain",
    .resolve = resolve,
    .bind = twp_llama_bind,
};

const struct tw_family tw_family_qwen2_sparse = {
    .model_type = "qwen2_sparse_relu",
    .note = "the paper's, shaped as Qwen 2",
    .resolve = resolve,
    .bind = twp_qwen2_bind,
};
