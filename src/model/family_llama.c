/* Llama: RMS norms, rotary positions, grouped-query attention, gated
 * feed-forward layers. hidden_act decides whether it is sparse (ReluLLaMA,
 * ProSparse) or not. */
#include <config.h>

#include "model/family_llama.h"

#include <math.h>
#include <stdio.h>

static enum tw_status resolve_sizes(struct tw_model *model,
                                    struct tw_error *err)
{
    const struct {
        const char *field;
        int64_t *value;
    } sizes[] = {
        {"hidden_size", &model->d_model},
        {"intermediate_size", &model->d_ff},
        {"num_hidden_layers", &model->layers},
        {"num_attention_heads", &model->heads},
        {"vocab_size", &model->vocab},
        {"max_position_embeddings", &model->max_position},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        enum tw_status status =
            twp_size(model, sizes[i].field, 0, sizes[i].value, err);
        if (status != TW_OK)
            return status;
    }
    enum tw_status status = twp_size(model, "num_key_value_heads", model->heads,
                                     &model->kv_heads, err);
    if (status != TW_OK)
        return status;
    int64_t head_dim = model->d_model / model->heads;
    return twp_size(model, "head_dim", head_dim ? head_dim : 1,
                    &model->head_dim, err);
}

static enum tw_status check_heads(const struct tw_model *model,
                                  struct tw_error *err)
{
    if (model->heads % model->kv_heads != 0)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: %lld attention heads cannot share "
                            "%lld key-value heads",
                            (long long)model->heads,
                            (long long)model->kv_heads);
    if (model->head_dim % 2 != 0)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: head_dim %lld is odd",
                            (long long)model->head_dim);
    return TW_OK;
}

/* What the family's other implementations can do and this one cannot. */
static enum tw_status refuse_variants(struct tw_model *model,
                                      struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    int64_t tp;
    enum tw_status status =
        tw_config_int_or(config, "pretraining_tp", 1, &tp, err);
    if (status == TW_OK && tp != 1)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "config.json: pretraining_tp %lld is not "
                            "supported, only 1",
                            (long long)tp);
    if (status == TW_OK && tw_config_has(config, "quantization_config"))
        status = tw_error_set(err, TW_ERR_UNSUPPORTED,
                              "config.json: quantization_config is not "
                              "supported: weights must be F32, BF16 or F16");
    return status;
}

enum tw_status twp_llama_resolve_shape(struct tw_model *model,
                                       struct tw_error *err)
{
    double eps;
    enum tw_status status = resolve_sizes(model, err);
    if (status == TW_OK)
        status = check_heads(model, err);
    if (status == TW_OK)
        status = refuse_variants(model, err);
    if (status == TW_OK)
        status = tw_config_real_or(model->checkpoint.config, "rms_norm_eps",
                                   1e-6, &eps, err);
    if (status != TW_OK)
        return status;
    if (!(eps >= 0 && eps < 1))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "config.json: rms_norm_eps %g is not between 0 "
                            "and 1",
                            eps);
    model->final_norm = (struct tw_norm){.kind = TW_NORM_RMS,
                                         .eps = (float)eps};
    return twp_rope(model, err);
}

static enum tw_status resolve(struct tw_model *model,
                              const struct tw_model_options *options,
                              struct tw_error *err)
{
    const char *act;
    enum tw_status status = twp_llama_resolve_shape(model, err);
    if (status == TW_OK)
        status = tw_config_text(model->checkpoint.config, "hidden_act", &act,
                                err);
    model->is_gated = true;
    if (status == TW_OK)
        status = twp_activation(model, options, act, "config.json", err);
    return status;
}

/* NAME.weight, and NAME.bias if the config has biases. */
static enum tw_status take_linear(struct tw_model *model, const char *layer,
                                  const char *name, bool has_bias,
                                  int64_t rows, int64_t cols,
                                  struct tw_matrix *weight,
                                  struct tw_matrix *bias, struct tw_error *err)
{
    char text[64];
    snprintf(text, sizeof text, "%s.weight", name);
    enum tw_status status =
        twp_take(model, layer, text, rows, cols, weight, err);
    if (status != TW_OK || !has_bias)
        return status;
    snprintf(text, sizeof text, "%s.bias", name);
    return twp_take(model, layer, text, 0, rows, bias, err);
}

static enum tw_status bind_attention(struct tw_model *m, const char *prefix,
                                     bool has_bias, struct tw_layer *l,
                                     struct tw_error *err)
{
    int64_t q_rows = m->heads * m->head_dim;
    int64_t kv_rows = m->kv_heads * m->head_dim;
    const struct {
        const char *name;
        int64_t rows, cols;
        struct tw_matrix *weight, *bias;
    } parts[] = {
        {"self_attn.q_proj", q_rows, m->d_model, &l->q, &l->q_bias},
        {"self_attn.k_proj", kv_rows, m->d_model, &l->k, &l->k_bias},
        {"self_attn.v_proj", kv_rows, m->d_model, &l->v, &l->v_bias},
        {"self_attn.o_proj", m->d_model, q_rows, &l->o, &l->o_bias},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        enum tw_status status =
            take_linear(m, prefix, parts[i].name, has_bias, parts[i].rows,
                        parts[i].cols, parts[i].weight, parts[i].bias, err);
        if (status != TW_OK)
            return status;
    }
    l->attention = (struct tw_attention){
        .heads = m->heads,
        .kv_heads = m->kv_heads,
        .head_dim = m->head_dim,
        .scale = (float)(1 / sqrt((double)m->head_dim)),
    };
    return TW_OK;
}

static enum tw_status bind_ffn(struct tw_model *m, const char *prefix,
                               bool has_bias, struct tw_ffn_desc *ffn,
                               struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (m->is_gated)
        status = take_linear(m, prefix, "mlp.gate_proj", has_bias, m->d_ff,
                             m->d_model, &ffn->gate, &ffn->gate_bias, err);
    if (status == TW_OK)
        status = take_linear(m, prefix, "mlp.up_proj", has_bias, m->d_ff,
                             m->d_model, &ffn->up, &ffn->up_bias, err);
    if (status == TW_OK)
        status = take_linear(m, prefix, "mlp.down_proj", has_bias, m->d_model,
                             m->d_ff, &ffn->down, &ffn->down_bias, err);
    return status;
}

static enum tw_status bind_layer(struct tw_model *model, int64_t number,
                                 bool has_attn_bias, bool has_ffn_bias,
                                 struct tw_error *err)
{
    char prefix[64];
    struct tw_layer *layer = &model->layer[number];
    snprintf(prefix, sizeof prefix, "model.layers.%lld", (long long)number);
    layer->attn_norm = model->final_norm;
    layer->ffn_norm = model->final_norm;
    enum tw_status status =
        twp_take(model, prefix, "input_layernorm.weight", 0, model->d_model,
                 &layer->attn_norm.weight, err);
    if (status == TW_OK)
        status = bind_attention(model, prefix, has_attn_bias, layer, err);
    if (status == TW_OK)
        status = twp_take(model, prefix, "post_attention_layernorm.weight", 0,
                          model->d_model, &layer->ffn_norm.weight, err);
    if (status == TW_OK)
        status = bind_ffn(model, prefix, has_ffn_bias, &layer->ffn, err);
    return status;
}

enum tw_status twp_llama_bind(struct tw_model *model, struct tw_error *err)
{
    struct tw_config *config = model->checkpoint.config;
    bool is_tied, has_attn_bias = false, has_ffn_bias = false;
    enum tw_status status = tw_config_bool_or(config, "tie_word_embeddings",
                                              false, &is_tied, err);
    if (status == TW_OK)
        status = tw_config_bool_or(config, "attention_bias", false,
                                   &has_attn_bias, err);
    if (status == TW_OK)
        status =
            tw_config_bool_or(config, "mlp_bias", false, &has_ffn_bias, err);
    if (status == TW_OK)
        status = twp_embedding(model, "model.embed_tokens.weight",
                               "lm_head.weight", is_tied, err);
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++)
        status = bind_layer(model, l, has_attn_bias, has_ffn_bias, err);
    if (status == TW_OK)
        status = twp_take(model, NULL, "model.norm.weight", 0, model->d_model,
                          &model->final_norm.weight, err);
    return status;
}

const struct tw_family tw_family_llama = {
    .model_type = "llama",
    .resolve = resolve,
    .bind = twp_llama_bind,
};
