/* Architectures that llama.cpp writes in the way of the GPTs. Source: the
 * names and changes of llama.cpp's converter. Widths come from the tensors:
 * the converter writes four times the model's for some of them, whatever the
 * model had. */
#include <config.h>

#include "load/config_internal.h"
#include "load/gguf_arch.h"

#define INT(field, key)                                                        \
    {                                                                          \
        field, key, TWP_FIELD_INT, false                                       \
    }
#define MAYBE_REAL(field, key)                                                 \
    {                                                                          \
        field, key, TWP_FIELD_REAL, true                                       \
    }
#define EPS ".attention.layer_norm_epsilon"

static const struct twp_gguf_field gpt2_fields[] = {
    INT("n_layer", ".block_count"),
    INT("n_embd", ".embedding_length"),
    INT("n_head", ".attention.head_count"),
    INT("n_positions", ".context_length"),
    MAYBE_REAL("layer_norm_epsilon", EPS),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field bloom_fields[] = {
    INT("n_layer", ".block_count"),
    INT("hidden_size", ".embedding_length"),
    INT("n_head", ".attention.head_count"),
    INT("seq_length", ".context_length"),
    MAYBE_REAL("layer_norm_epsilon", EPS),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field falcon_fields[] = {
    INT("num_hidden_layers", ".block_count"),
    INT("hidden_size", ".embedding_length"),
    INT("num_attention_heads", ".attention.head_count"),
    INT("num_kv_heads", ".attention.head_count_kv"),
    INT("max_position_embeddings", ".context_length"),
    MAYBE_REAL("layer_norm_epsilon", EPS),
    TWP_GGUF_NO_FIELD,
};
static const struct twp_gguf_field hidden_fields[] = {
    INT("num_hidden_layers", ".block_count"),
    INT("hidden_size", ".embedding_length"),
    INT("num_attention_heads", ".attention.head_count"),
    INT("max_position_embeddings", ".context_length"),
    MAYBE_REAL("layer_norm_eps", EPS),
    {"use_parallel_residual", ".use_parallel_residual", TWP_FIELD_BOOL, true},
    {"num_key_value_heads", ".attention.head_count_kv", TWP_FIELD_INT, true},
    TWP_GGUF_NO_FIELD,
};

static const struct twp_gguf_presence qkv_bias[] = {
    {"attention_bias", "blk.0.attn_qkv.bias", false},
    TWP_GGUF_NO_PRESENCE,
};
static const struct twp_gguf_presence falcon_bias[] = {
    {"bias", "blk.0.attn_qkv.bias", false},
    TWP_GGUF_NO_PRESENCE,
};

#define H(name) "transformer.h.%." name

static const struct twp_gguf_name gpt2_names[] = {
    {"token_embd", "transformer.wte", TWP_UNDO_NONE},
    {"position_embd", "transformer.wpe", TWP_UNDO_NONE},
    {"output_norm", "transformer.ln_f", TWP_UNDO_NONE},
    {"output", "lm_head", TWP_UNDO_NONE},
    {"blk.%.attn_norm", H("ln_1"), TWP_UNDO_NONE},
    {"blk.%.attn_qkv", H("attn.c_attn"), TWP_UNDO_TRANSPOSE},
    {"blk.%.attn_output", H("attn.c_proj"), TWP_UNDO_TRANSPOSE},
    {"blk.%.ffn_norm", H("ln_2"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", H("mlp.c_fc"), TWP_UNDO_TRANSPOSE},
    {"blk.%.ffn_down", H("mlp.c_proj"), TWP_UNDO_TRANSPOSE},
    TWP_GGUF_NO_NAME,
};
static const struct twp_gguf_name bloom_names[] = {
    {"token_embd", "transformer.word_embeddings", TWP_UNDO_NONE},
    {"token_embd_norm", "transformer.word_embeddings_layernorm", TWP_UNDO_NONE},
    {"output_norm", "transformer.ln_f", TWP_UNDO_NONE},
    {"output", "lm_head", TWP_UNDO_NONE},
    {"blk.%.attn_norm", H("input_layernorm"), TWP_UNDO_NONE},
    {"blk.%.attn_qkv", H("self_attention.query_key_value"), TWP_UNDO_QKV},
    {"blk.%.attn_output", H("self_attention.dense"), TWP_UNDO_NONE},
    {"blk.%.ffn_norm", H("post_attention_layernorm"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", H("mlp.dense_h_to_4h"), TWP_UNDO_NONE},
    {"blk.%.ffn_down", H("mlp.dense_4h_to_h"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};
/* With two norms a layer, before bloom_names, which Falcon shares. */
static const struct twp_gguf_name falcon_norms[] = {
    {"blk.%.attn_norm", H("ln_mlp"), TWP_UNDO_NONE},
    {"blk.%.attn_norm_2", H("ln_attn"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};

#define NEOX(name) "gpt_neox.layers.%." name

static const struct twp_gguf_name neox_names[] = {
    {"token_embd", "gpt_neox.embed_in", TWP_UNDO_NONE},
    {"output_norm", "gpt_neox.final_layer_norm", TWP_UNDO_NONE},
    {"output", "embed_out", TWP_UNDO_NONE},
    {"blk.%.attn_norm", NEOX("input_layernorm"), TWP_UNDO_NONE},
    {"blk.%.attn_qkv", NEOX("attention.query_key_value"), TWP_UNDO_QKV},
    {"blk.%.attn_output", NEOX("attention.dense"), TWP_UNDO_NONE},
    {"blk.%.ffn_norm", NEOX("post_attention_layernorm"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", NEOX("mlp.dense_h_to_4h"), TWP_UNDO_NONE},
    {"blk.%.ffn_down", NEOX("mlp.dense_4h_to_h"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};

#define LAYER(name) "model.layers.%." name

static const struct twp_gguf_name phi2_names[] = {
    {"token_embd", "model.embed_tokens", TWP_UNDO_NONE},
    {"output_norm", "model.final_layernorm", TWP_UNDO_NONE},
    {"output", "lm_head", TWP_UNDO_NONE},
    {"blk.%.attn_norm", LAYER("input_layernorm"), TWP_UNDO_NONE},
    {"blk.%.attn_q", LAYER("self_attn.q_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_k", LAYER("self_attn.k_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_v", LAYER("self_attn.v_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_qkv", "", TWP_UNDO_JOIN},
    {"blk.%.attn_output", LAYER("self_attn.dense"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", LAYER("mlp.fc1"), TWP_UNDO_NONE},
    {"blk.%.ffn_down", LAYER("mlp.fc2"), TWP_UNDO_NONE},
    TWP_GGUF_NO_NAME,
};

/* Falcon's forms: one key-value head for all (7B), or groups (40B), with two
 * norms a layer or one (11B). llama.cpp runs those without alibi. */
static enum tw_status more_falcon(struct twp_gguf_making *making,
                                  struct tw_error *err)
{
    int64_t kv_heads = 1;
    enum tw_status status =
        twp_gguf_number(making, ".attention.head_count_kv", 1, &kv_heads, err);
    if (status == TW_OK)
        status = twp_config_put(making->config, "new_decoder_architecture",
                                json_boolean(kv_heads > 1),
                                "falcon.attention.head_count_kv", err);
    if (status == TW_OK)
        status = twp_config_put(making->config, "multi_query",
                                json_boolean(kv_heads == 1),
                                "falcon.attention.head_count_kv", err);
    if (status == TW_OK)
        status = twp_gguf_constant(making, "parallel_attn", json_true(), err);
    if (status == TW_OK)
        status = twp_gguf_constant(making, "alibi", json_false(), err);
    if (status == TW_OK)
        status =
            twp_config_put(making->config, "num_ln_in_parallel_attn",
                           json_integer(making->arch->only_with ? 2 : 1),
                           "whether there is a blk.0.attn_norm_2.weight", err);
    return status;
}

#define FALCON(...)                                                            \
    {                                                                          \
        "falcon", "falcon",                                                    \
            .fields = falcon_fields, .width_field = "ffn_hidden_size",         \
            .activation_field = "activation", .activation = "gelu",            \
            .has_rope = true, .presences = falcon_bias, .names = bloom_names,  \
            .more = more_falcon, __VA_ARGS__                                   \
    }

const struct twp_gguf_arch twp_gguf_gpt_likes[] = {
    {"gpt2", "gpt2", .fields = gpt2_fields, .width_field = "n_inner",
     .activation_field = "activation_function", .activation = "gelu_new",
     .names = gpt2_names},
    {"gptneox", "gpt_neox", .fields = hidden_fields,
     .width_field = "intermediate_size", .activation_field = "hidden_act",
     .activation = "gelu", .has_rope = true, .presences = qkv_bias,
     .names = neox_names},
    {"phi2", "phi", .fields = hidden_fields, .width_field = "intermediate_size",
     .activation_field = "hidden_act", .activation = "gelu_new",
     .has_rope = true, .names = phi2_names},
    FALCON(.only_with = "blk.0.attn_norm_2.weight", .more_names = falcon_norms),
    FALCON(.only_with = NULL),
    {"bloom", "bloom", .fields = bloom_fields, .names = bloom_names},
    {.name = NULL},
};
