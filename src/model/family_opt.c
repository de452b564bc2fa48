/* OPT: learned positions that start at row 2, plain feed-forward layers with
 * ReLU. The 350m form normalises each sum instead of each input, has no final
 * norm, and projects from and to narrower embeddings. */
#include <config.h>

#include "model/family.h"

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    static const struct twp_size_names names = {
        .d_model = "hidden_size",
        .d_ff = "ffn_dim",
        .layers = "num_hidden_layers",
        .heads = "num_attention_heads",
        .max_position = "max_position_embeddings",
    };
    enum tw_status status = twp_sizes(model, &names, err);
    if (status == TW_OK)
        status = twp_size(model, "word_embed_proj_dim", model->d_model,
                          &model->d_embed, err);
    if (status == TW_OK)
        status = twp_activation_or(model, options, "activation_function",
                                   "relu", err);
    model->norm = (struct tw_norm){.kind = TW_NORM_LAYER, .eps = 1e-5f};
    model->position_first = 2;
    twp_learned_positions(model);
    return status;
}

/* Where the norms stand. */
static enum tw_status place_norms(struct tw_model *model, struct twp_form *form,
                                  struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool is_before, is_bare, has_weights;
    enum tw_status status = tw_config_bool_or(config, "do_layer_norm_before",
                                              true, &is_before, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "_remove_final_layer_norm", false,
                                   &is_bare, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "layer_norm_elementwise_affine",
                                   true, &has_weights, err);
    if (status != TW_OK)
        return status;
    const char *attn = "self_attn_layer_norm", *ffn = "final_layer_norm";
    form->has_norm_bias = has_weights;
    form->is_norm_bare = !has_weights;
    if (is_before) {
        form->attn_norm = attn;
        form->ffn_norm = ffn;
        form->final_norm = is_bare ? NULL : "final_layer_norm";
    } else {
        form->attn_sum_norm = attn;
        form->ffn_sum_norm = ffn;
    }
    return TW_OK;
}

static enum tw_status bind(struct tw_model *model, struct tw_error *err)
{
    static const char *const bases[] = {"model.decoder", "decoder", NULL};
    struct twp_form form = {
        .bases = bases,
        .embed = "embed_tokens",
        .positions = "embed_positions",
        .layers = "layers",
        .head = "lm_head",
        .q = "self_attn.q_proj",
        .k = "self_attn.k_proj",
        .v = "self_attn.v_proj",
        .o = "self_attn.out_proj",
        .up = "fc1",
        .down = "fc2",
    };
    struct tw_config *config = model->checkpoint.config;
    bool has_bias = true;
    enum tw_status status = place_norms(model, &form, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "enable_bias", true, &has_bias, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "tie_word_embeddings", true,
                                   &form.is_tied, err);
    if (status != TW_OK)
        return status;
    form.has_qkv_bias = form.has_o_bias = form.has_ffn_bias = has_bias;
    if (model->d_embed != model->d_model) {
        form.embed_in = "project_in";
        form.embed_out = "project_out";
    }
    return twp_bind(model, &form, err);
}

static const char *const ignored[] = {"decoder.version", NULL};
const struct tw_family tw_family_opt = {
    .model_type = "opt",
    .note = "learned positions, ReLU; 350m: norms of sums, narrow embeddings",
    .resolve = resolve,
    .bind = bind,
    .ignored = ignored,
};
