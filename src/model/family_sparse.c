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
    if (tw_config_has(config, "sparsity_new_intermediate_size"))
        tw_config_override(config, "intermediate_size",
                           "sparsity_new_intermediate_size counts");
    if (strcmp(said, "relu") != 0)
        tw_config_override(config, "hidden_act", "the family's code is ReLU");
    if (strcmp(said, "relu") != 0)
        snprintf(source, sizeof source,
                 "family (config.json says hidden_act '%.40s', the family's "
                 "code is ReLU)",
                 said);
    return twp_activation(model, options, "relu", source, err);
}

/* How the release's training and inference code have called the matrices of a
 * feed-forward layer, and which of them they store as [in][out]. */
struct naming {
    const char *gate, *up, *down;
    bool is_gate_flipped, is_up_flipped, is_plain_up_flipped, is_down_flipped;
};
static const struct naming namings[] = {
    {"mlp.gate_weight", "mlp.up_weight", "mlp.down_weight", true, false, true,
     true},
    {"mlp.GATE", "mlp.UP", "mlp.DOWN", false, false, false, true},
    /* Saved while the hybrid kernel held it. */
    {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
     false, false, false, true},
};
enum { NAMINGS = sizeof namings / sizeof *namings };

static const struct tw_tensor *find_down(const struct tw_model *model,
                                         const struct naming *naming,
                                         int64_t layer)
{
    char name[80];
    snprintf(name, sizeof name, "model.layers.%lld.%s", (long long)layer,
             naming->down);
    return tw_tensors_find(&model->checkpoint.tensors, name);
}

/* Is every down_proj [d_ff][d_model]? */
static bool are_all_flipped(const struct tw_model *model,
                            const struct naming *naming)
{
    for (int64_t l = 0; l < model->layers; l++) {
        const struct tw_tensor *down = find_down(model, naming, l);
        if (!down || down->dims != 2 || down->shape[0] != model->d_ff ||
            down->shape[1] != model->d_model)
            return false;
    }
    return true;
}

/* The naming of the file; NULL: Llama's own. A down_proj stored as [d_ff]
 * [d_model] shows by its shape, unless that is a square. */
static enum tw_status find_naming(struct tw_model *model,
                                  const struct naming **naming,
                                  struct tw_error *err)
{
    const struct naming *hybrid = &namings[NAMINGS - 1];
    bool is_hybrid = false;
    *naming = NULL;
    for (int i = 0; i < NAMINGS - 1; i++)
        if (find_down(model, &namings[i], 0))
            *naming = &namings[i];
    enum tw_status status =
        tw_config_bool_or(model->checkpoint.config,
                          "sparsity_use_hybrid_kernel", false, &is_hybrid, err);
    if (status != TW_OK || *naming || !are_all_flipped(model, hybrid))
        return status;
    bool is_square = model->d_ff == model->d_model;
    if (is_square && is_hybrid)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: sparsity_use_hybrid_kernel with "
                            "intermediate_size equal to hidden_size: which "
                            "way down_proj is stored cannot be told");
    if (!is_square)
        *naming = hybrid;
    return TW_OK;
}

static enum tw_status take(struct tw_model *model, const char *prefix,
                           const char *name, bool is_flipped, int64_t rows,
                           int64_t cols, struct tw_matrix *matrix,
                           struct tw_error *err)
{
    struct tw_matrix stored;
    if (!is_flipped)
        return twp_take(model, prefix, name, rows, cols, matrix, err);
    enum tw_status status =
        twp_take(model, prefix, name, cols, rows, &stored, err);
    return status == TW_OK ? twp_transpose(model, &stored, matrix, err)
                           : status;
}

static enum tw_status bind_named(struct tw_model *m,
                                 const struct naming *naming,
                                 struct tw_error *err)
{
    char prefix[64];
    bool is_up_flipped =
        m->is_gated ? naming->is_up_flipped : naming->is_plain_up_flipped;
    enum tw_status status = TW_OK;
    for (int64_t l = 0; status == TW_OK && l < m->layers; l++) {
        struct tw_ffn_desc *ffn = &m->layer[l].ffn;
        snprintf(prefix, sizeof prefix, "model.layers.%lld", (long long)l);
        if (m->is_gated)
            status = take(m, prefix, naming->gate, naming->is_gate_flipped,
                          m->d_ff, m->d_model, &ffn->gate, err);
        if (status == TW_OK)
            status = take(m, prefix, naming->up, is_up_flipped, m->d_ff,
                          m->d_model, &ffn->up, err);
        if (status == TW_OK)
            status = take(m, prefix, naming->down, naming->is_down_flipped,
                          m->d_model, m->d_ff, &ffn->down, err);
    }
    return status;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    struct twp_form form = twp_llama_form;
    const struct naming *naming;
    bool is_qwen = strcmp(model->model_type, "qwen2_sparse_relu") == 0;
    enum tw_status status = find_naming(model, &naming, err);
    if (status != TW_OK)
        return status;
    if (naming)
        form.gate = form.up = form.down = NULL;
    status = is_qwen ? twp_qwen2_bind_form(model, "mlp_bias", &form, err)
                     : twp_llama_bind_form(model, &form, err);
    if (status == TW_OK && naming && form.has_ffn_bias)
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "config.json: mlp_bias true is not supported "
                              "with tensors named '%s'",
                              naming->down);
    return status == TW_OK && naming ? bind_named(model, naming, err) : status;
}

/* What the release's training keeps beside the weights. */
static const char *const trackers[] = {"tracker.", "metrics_accumulator.",
                                       NULL};

const struct tw_family tw_family_llama_sparse = {
    .model_type = "llama_sparse_relu",
    .note = "the paper's: ReLU whatever hidden_act says, gated or plain",
    .resolve = resolve,
    .bind = bind,
    .ignored = trackers,
};

const struct tw_family tw_family_qwen2_sparse = {
    .model_type = "qwen2_sparse_relu",
    .note = "the paper's, shaped as Qwen 2",
    .resolve = resolve,
    .bind = bind,
    .ignored = trackers,
};
