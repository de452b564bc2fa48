/* The table of architectures, and the tables of those that llama.cpp writes in
 * Llama's way. Source: the names and changes of llama.cpp's converter. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "load/gguf_arch.h"

static const struct twp_gguf_field llama_fields[] = {
    {"num_hidden_layers", ".block_count", TWP_FIELD_INT, false},
    {"hidden_size", ".embedding_length", TWP_FIELD_INT, false},
    {"intermediate_size", ".feed_forward_length", TWP_FIELD_INT, false},
    {"num_attention_heads", ".attention.head_count", TWP_FIELD_INT, false},
    {"num_key_value_heads", ".attention.head_count_kv", TWP_FIELD_INT, true},
    {"head_dim", ".attention.key_length", TWP_FIELD_INT, true},
    {"max_position_embeddings", ".context_length", TWP_FIELD_INT, false},
    {"rms_norm_eps", ".attention.layer_norm_rms_epsilon", TWP_FIELD_REAL, true},
    {NULL, NULL, TWP_FIELD_INT, true},
};

#define LAYER(name) "model.layers.%." name

static const struct twp_gguf_name llama_names[] = {
    {"token_embd", "model.embed_tokens", TWP_UNDO_NONE},
    {"output_norm", "model.norm", TWP_UNDO_NONE},
    {"output", "lm_head", TWP_UNDO_NONE},
    {"blk.%.attn_norm", LAYER("input_layernorm"), TWP_UNDO_NONE},
    {"blk.%.attn_q", LAYER("self_attn.q_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_k", LAYER("self_attn.k_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_v", LAYER("self_attn.v_proj"), TWP_UNDO_NONE},
    {"blk.%.attn_output", LAYER("self_attn.o_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_norm", LAYER("post_attention_layernorm"), TWP_UNDO_NONE},
    {"blk.%.ffn_gate", LAYER("mlp.gate_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_up", LAYER("mlp.up_proj"), TWP_UNDO_NONE},
    {"blk.%.ffn_down", LAYER("mlp.down_proj"), TWP_UNDO_NONE},
    {NULL, NULL, TWP_UNDO_NONE},
};
/* Rotary pairs of neighbours instead of halves: rows of q and k moved. */
static const struct twp_gguf_name llama_rows[] = {
    {"blk.%.attn_q", LAYER("self_attn.q_proj"), TWP_UNDO_ROPE_Q},
    {"blk.%.attn_k", LAYER("self_attn.k_proj"), TWP_UNDO_ROPE_K},
    {NULL, NULL, TWP_UNDO_NONE},
};

static const struct twp_gguf_arch archs[] = {
    {.name = "llama",
     .model_type = "llama",
     .fields = llama_fields,
     .activation_field = "hidden_act",
     .activation = "silu",
     .has_rope = true,
     .names = llama_names,
     .more_names = llama_rows},
};
enum { ARCHS = sizeof archs / sizeof *archs };

enum tw_status twp_gguf_arch_find(const struct tw_gguf *gguf,
                                  const struct twp_gguf_arch **arch,
                                  struct tw_error *err)
{
    const struct twp_gguf_file *file = &gguf->file[0];
    const char *text;
    char list[256] = "";
    size_t size, used = 0;
    const struct twp_gguf_value *value =
        twp_gguf_find(file, "general.architecture");
    if (!value || !twp_gguf_text(value, &text, &size))
        return tw_error_set(err, TW_ERR_FORMAT,
                            "%s: no text 'general.architecture'", file->name);
    for (int i = 0; i < ARCHS; i++) {
        if (size == strlen(archs[i].name) &&
            memcmp(text, archs[i].name, size) == 0) {
            *arch = &archs[i];
            return TW_OK;
        }
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                     i ? ", " : "", archs[i].name);
    }
    return tw_error_set(err, TW_ERR_UNSUPPORTED,
                        "%s: general.architecture '%.*s' is not supported; "
                        "supported: %s",
                        file->name, size < 60 ? (int)size : 60, text, list);
}
