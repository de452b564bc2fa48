/* Architectures that llama.cpp writes in Llama's way. Source: the names and
 * changes of llama.cpp's converter, and what its runtime takes for granted
 * where a file says nothing. */
#include <config.h>

#include <math.h>

#include "load/config_internal.h"
#include "load/gguf_arch.h"

#define INT(field, key)                                                        \
    {                                                                          \
        field, key, TWP_FIELD_INT, false                                       \
    }
#define MAYBE_INT(field, key)                                                  \
    {                                                                          \
        field, key, TWP_FIELD_INT, true                                        \
    }
#define SLIDING_WINDOW                                                         \
    {                                                                          \
        "sliding_window", ".attention.sliding_window", TWP_FIELD_COUNT, true   \
    }
#define MAYBE_REAL(field, key)                                                 \
    {                                                                          \
        field, key, TWP_FIELD_REAL, true                                       \
    }

static const struct twp_gguf_field sizes[] = {
    INT("num_hidden_layers", ".block_count"),
    INT("hidden_size", ".embedding_length"),
    INT("intermediate_size", ".feed_forward_length"),
    INT("num_attention_heads", ".attention.head_count"),
    MAYBE_INT("num_key_value_heads", ".attention.head_count_kv"),
    MAYBE_INT("head_dim", ".attention.key_length"),
    INT("max_position_embeddings", ".context_length"),
    MAYBE_REAL("rms_norm_eps", ".attention.layer_norm_rms_epsilon"),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field gemma2_fields[] = {
    MAYBE_REAL("attn_logit_softcapping", ".attn_logit_softcapping"),
    MAYBE_REAL("final_logit_softcapping", ".final_logit_softcapping"),
    SLIDING_WINDOW,
    TWP_GGUF_NO_FIELD,
};
/* Absent, Gemma 3's rope does not scale; its global base is a million. */
static const struct twp_gguf_field gemma3_fields[] = {
    MAYBE_REAL("final_logit_softcapping", ".final_logit_softcapping"),
    SLIDING_WINDOW,
    MAYBE_REAL("rope_theta", ".rope.freq_base"),
    MAYBE_REAL("rope_local_base_freq", ".rope.freq_base_swa"),
    MAYBE_REAL("rope_scaling.factor", ".rope.scaling.factor"),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field phi3_fields[] = {
    SLIDING_WINDOW,
    MAYBE_INT("original_max_position_embeddings",
              ".rope.scaling.original_context_length"),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field layer_norm_fields[] = {
    MAYBE_REAL("layer_norm_eps", ".attention.layer_norm_epsilon"),
    MAYBE_REAL("logit_scale", ".logit_scale"),
    {"use_parallel_residual", ".use_parallel_residual", TWP_FIELD_BOOL, true},
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field nemotron_fields[] = {
    MAYBE_REAL("norm_eps", ".attention.layer_norm_epsilon"),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field granite_fields[] = {
    MAYBE_REAL("attention_multiplier", ".attention.scale"),
    MAYBE_REAL("embedding_multiplier", ".embedding_scale"),
    MAYBE_REAL("residual_multiplier", ".residual_scale"),
    MAYBE_REAL("logits_scaling", ".logit_scale"),
    TWP_GGUF_NO_FIELD,
};

static const struct twp_gguf_presence biases[] = {
    {"attention_bias", "blk.0.attn_q.bias", false},
    {"mlp_bias", "blk.0.ffn_up.bias", false},
    TWP_GGUF_NO_PRESENCE,
};
static const struct twp_gguf_presence attention_bias[] = {
    {"attention_bias", "blk.0.attn_q.bias", false},
    TWP_GGUF_NO_PRESENCE,
};
static const struct twp_gguf_presence cohere_presences[] = {
    {"attention_bias", "blk.0.attn_q.bias", false},
    {"use_qk_norm", "blk.0.attn_q_norm.weight", false},
    TWP_GGUF_NO_PRESENCE,
};
static const struct twp_gguf_presence stablelm_presences[] = {
    {"use_qkv_bias", "blk.0.attn_q.bias", false},
    {"qk_layernorm", "blk.0.attn_q_norm.weight", false},
    TWP_GGUF_NO_PRESENCE,
};

#define LAYER(name) "model.layers.%." name

static const struct twp_gguf_name names[] = {
    {"token_embd", "model.embed_tokens", TWP_UNDO_NONE},
    {"output_norm", "model.norm", TWP_UNDO_NONE},
    {"output", "lm_head", TWP_UNDO_NONE},
    {"blk.%.attn_norm", LAYER("input_layernorm"), TWP_UNDO_NONE},
    {"blk.%.attn_q", LAYER("self_attn.q_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_k", LAYER("self_attn.k_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_v", LAYER("self_attn.v_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_qkv", "", TWP_UNDO_JOIN},
    {"blk.%.attn_output", LAYER("self_attn.o_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_q_norm", LAYER("self_attn.q_norm"), TWP_UNDO_NONE},
    {"blk.%.attn_k_norm", LAYER("self_attn.k_norm"), TWP_UNDO_NONE},
    {"blk.%.ffn_norm", LAYER("post_attention_layernorm"), TWP_UNDO_NONE},
    {"blk.%.ffn_gate", LAYER("mlp.gate_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", LAYER("mlp.up_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_down", LAYER("mlp.down_proj"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};
/* What differs from these, first. Llama's rotary pairs are neighbours. */
static const struct twp_gguf_name llama_names[] = {
    {"blk.%.attn_q", LAYER("self_attn.q_proj"), TWP_UNDO_ROPE_Q},
    {"blk.%.attn_k", LAYER("self_attn.k_proj"), TWP_UNDO_ROPE_K},
    TWP_GGUF_NO_NAME,
};
/* Norms with 1 + weight, stored with the sum. */
static const struct twp_gguf_name plus_one_names[] = {
    {"output_norm", "model.norm", TWP_UNDO_PLUS_ONE},
    {"blk.%.attn_norm", LAYER("input_layernorm"), TWP_UNDO_PLUS_ONE},
    {"blk.%.ffn_norm", LAYER("post_attention_layernorm"), TWP_UNDO_PLUS_ONE},
    TWP_GGUF_NO_NAME,
};
static const struct twp_gguf_name gemma2_names[] = {
    {"output_norm", "model.norm", TWP_UNDO_PLUS_ONE},
    {"blk.%.attn_norm", LAYER("input_layernorm"), TWP_UNDO_PLUS_ONE},
    {"blk.%.post_attention_norm", LAYER("post_attention_layernorm"),
     TWP_UNDO_PLUS_ONE},
    {"blk.%.ffn_norm", LAYER("pre_feedforward_layernorm"), TWP_UNDO_PLUS_ONE},
    {"blk.%.post_ffw_norm", LAYER("post_feedforward_layernorm"),
     TWP_UNDO_PLUS_ONE},
    {"blk.%.attn_q_norm", LAYER("self_attn.q_norm"), TWP_UNDO_PLUS_ONE},
    {"blk.%.attn_k_norm", LAYER("self_attn.k_norm"), TWP_UNDO_PLUS_ONE},
    TWP_GGUF_NO_NAME,
};
static const struct twp_gguf_name olmo2_names[] = {
    {"blk.%.post_attention_norm", LAYER("post_attention_layernorm"),
     TWP_UNDO_NONE},
    {"blk.%.post_ffw_norm", LAYER("post_feedforward_layernorm"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};
static const struct twp_gguf_name phi3_names[] = {
    {"blk.%.attn_qkv", LAYER("self_attn.qkv_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", LAYER("mlp.gate_up_proj"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};
static const struct twp_gguf_name stablelm_names[] = {
    {"blk.%.attn_q_norm", LAYER("self_attn.q_layernorm.norms"), TWP_UNDO_STACK},
    {"blk.%.attn_k_norm", LAYER("self_attn.k_layernorm.norms"), TWP_UNDO_STACK},
    TWP_GGUF_NO_NAME,
};

/* query_pre_attn_scalar is in no file: the size of a head, but for the largest
 * model, where it is the model's width for each head. */
static enum tw_status put_scalar(struct twp_gguf_making *making,
                                 int64_t largest, struct tw_error *err)
{
    int64_t layers = 0, heads = 1, width = 0, head_dim = 0;
    enum tw_status status =
        twp_gguf_number(making, ".block_count", 0, &layers, err);
    if (status == TW_OK)
        status =
            twp_gguf_number(making, ".attention.head_count", 1, &heads, err);
    if (status == TW_OK)
        status = twp_gguf_number(making, ".embedding_length", 0, &width, err);
    if (status == TW_OK)
        status = twp_gguf_number(making, ".attention.key_length", 256,
                                 &head_dim, err);
    if (status != TW_OK)
        return status;
    if (layers == largest && heads > 0)
        head_dim = width / heads;
    return twp_gguf_constant(making, "query_pre_attn_scalar",
                             json_integer(head_dim), err);
}

static enum tw_status more_gemma2(struct twp_gguf_making *making,
                                  struct tw_error *err)
{
    return put_scalar(making, 46, err);
}

static enum tw_status more_gemma3(struct twp_gguf_making *making,
                                  struct tw_error *err)
{
    const char *full;
    enum tw_status status = put_scalar(making, 62, err);
    if (status == TW_OK && twp_gguf_key(making, ".rope.scaling.factor", &full))
        status = twp_config_put(making->config, "rope_scaling.rope_type",
                                json_string("linear"), full, err);
    return status;
}

/* Every fourth layer has no rope. */
static enum tw_status more_smollm3(struct twp_gguf_making *making,
                                   struct tw_error *err)
{
    return twp_gguf_constant(making, "no_rope_layer_interval", json_integer(4),
                             err);
}

/* The converter stores what the published numbers amount to; older files have
 * none and mean the first model's. */
static enum tw_status more_minicpm(struct twp_gguf_making *making,
                                   struct tw_error *err)
{
    int64_t layers = 0, width = 0;
    double embed = 0, branch = 0, head = 0;
    enum tw_status status =
        twp_gguf_number(making, ".block_count", 0, &layers, err);
    if (status == TW_OK)
        status = twp_gguf_number(making, ".embedding_length", 0, &width, err);
    double root = sqrt((double)(layers > 0 ? layers : 1));
    if (status == TW_OK)
        status =
            twp_gguf_real_number(making, ".embedding_scale", 12, &embed, err);
    if (status == TW_OK)
        status = twp_gguf_real_number(making, ".residual_scale", 1.4 / root,
                                      &branch, err);
    if (status == TW_OK)
        status = twp_gguf_real_number(making, ".logit_scale",
                                      (double)width / 256, &head, err);
    const struct {
        const char *field, *origin;
        double value;
    } fields[] = {
        {"scale_emb", "minicpm.embedding_scale, or 12", embed},
        {"scale_depth", "minicpm.residual_scale, or 1.4", branch * root},
        {"dim_model_base", "minicpm.logit_scale, or 256",
         head > 0 ? (double)width / head : 0},
    };
    for (int i = 0; i < 3 && status == TW_OK; i++)
        status =
            twp_config_put(making->config, fields[i].field,
                           json_real(fields[i].value), fields[i].origin, err);
    return status;
}

#define COMMON .fields = sizes, .names = names
#define SILU   .activation_field = "hidden_act", .activation = "silu"
#define GELU                                                                   \
    .activation_field = "hidden_activation", .activation = "gelu_pytorch_tanh"

const struct twp_gguf_arch twp_gguf_llama_likes[] = {
    {"llama", "llama", COMMON, SILU, .has_rope = true, .presences = biases,
     .more_names = llama_names},
    {"qwen2", "qwen2", COMMON, SILU, .has_rope = true},
    {"qwen3", "qwen3", COMMON, SILU, .has_rope = true,
     .presences = attention_bias},
    {"gemma", "gemma", COMMON, GELU, .has_rope = true,
     .more_names = plus_one_names},
    {"gemma2", "gemma2", COMMON, GELU, .has_rope = true,
     .more_fields = gemma2_fields, .more_names = gemma2_names,
     .more = more_gemma2},
    {"gemma3", "gemma3_text", COMMON, GELU, .more_fields = gemma3_fields,
     .more_names = gemma2_names, .more = more_gemma3},
    {"phi3", "phi3", COMMON, SILU, .has_rope = true, .more_fields = phi3_fields,
     .more_names = phi3_names},
    {"olmo2", "olmo2", COMMON, SILU, .has_rope = true,
     .presences = attention_bias, .more_names = olmo2_names},
    {"stablelm", "stablelm", COMMON, SILU, .has_rope = true,
     .more_fields = layer_norm_fields, .presences = stablelm_presences,
     .more_names = stablelm_names},
    {"smollm3", "smollm3", COMMON, SILU, .has_rope = true, .presences = biases,
     .more_names = llama_names, .more = more_smollm3},
    {"granite", "granite", COMMON, SILU, .has_rope = true,
     .more_fields = granite_fields, .presences = biases,
     .more_names = llama_names},
    {"command-r", "cohere", COMMON, SILU, .has_rope = true,
     .more_fields = layer_norm_fields, .presences = cohere_presences},
    {"minicpm", "minicpm", COMMON, SILU, .has_rope = true,
     .presences = attention_bias, .more_names = llama_names,
     .more = more_minicpm},
    {"nemotron", "nemotron", COMMON, .activation_field = "hidden_act",
     .activation = "relu2", .has_rope = true, .more_fields = nemotron_fields,
     .presences = biases, .more_names = plus_one_names},
    {.name = NULL},
};
