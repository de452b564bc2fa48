/* A tiny Llama checkpoint that a test writes, with one fault if it likes. */
#ifndef TESTS_TW_LLAMA_H
#define TESTS_TW_LLAMA_H

#include <math.h>

#include "tw_files.h"

enum {
    TINY_D = 8, TINY_F = 12, TINY_LAYERS = 2, TINY_HEADS = 2, TINY_KV = 1,
    TINY_HEAD_DIM = 4, TINY_V = 10
};

#define TINY_CONFIG                                                        \
    "{\"model_type\": \"llama\", \"hidden_act\": \"relu\", "               \
    "\"hidden_size\": 8, \"intermediate_size\": 12, "                      \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, "               \
    "\"num_key_value_heads\": 1, \"head_dim\": 4, \"vocab_size\": 10, "    \
    "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, "            \
    "\"tie_word_embeddings\": false, \"extra\": 0}"

/* What to change: text of the config, and one tensor (drop it, or give it
 * another type or shape, or a NaN); `add` is one more tensor. */
struct tiny_edit {
    const char *from, *to;           /* in TINY_CONFIG; NULL: as it is */
    const char *tensor;              /* NULL: none */
    const char *type;                /* NULL: "F32"; "": dropped */
    const char *shape;               /* "8,11"; NULL: as it is */
    const char *add;                 /* "NAME:ROWS,COLS" */
    int has_nan;                     /* in `tensor` */
};

struct tiny_writer {
    const struct tiny_edit *edit;
    char header[16384];
    size_t used;
    float data[4096];
    int64_t values;
};

static inline void tiny_add(struct tiny_writer *w, const char *name,
                            const char *sizes)
{
    const struct tiny_edit *e = w->edit;
    int is_edited = e->tensor && strcmp(e->tensor, name) == 0;
    const char *type = is_edited && e->type ? e->type : "F32";
    int64_t count = 1, begin = 4 * w->values;
    int bytes = strcmp(type, "I64") == 0 || strcmp(type, "F64") == 0 ? 8 : 4;
    if (!*type)
        return;
    if (is_edited && e->shape)
        sizes = e->shape;
    for (const char *at = sizes; at; at = strchr(at, ',')) {
        at += *at == ',';
        count *= atoll(at);
    }
    count *= bytes / 4;
    for (int64_t i = 0; i < count; i++)
        w->data[w->values + i] =
            0.01f * (float)((w->values + i) * 37 % 101 - 50);
    if (is_edited && e->has_nan)
        w->data[w->values + count - 1] = NAN;
    w->values += count;
    w->used += (size_t)snprintf(
        w->header + w->used, sizeof w->header - w->used,
        "%s'%s':{'dtype':'%s','shape':[%s],'data_offsets':[%lld,%lld]}",
        w->used > 1 ? "," : "", name, type, sizes, (long long)begin,
        (long long)(4 * w->values));
}

static inline void tiny_config(const char *folder, const struct tiny_edit *e)
{
    char config[2048];
    const char *at = e->from ? strstr(TINY_CONFIG, e->from) : NULL;
    ck_assert(!e->from || at);
    if (at)
        snprintf(config, sizeof config, "%.*s%s%s", (int)(at - TINY_CONFIG),
                 TINY_CONFIG, e->to, at + strlen(e->from));
    tw_write_text(folder, "config.json", at ? config : TINY_CONFIG);
}

static inline void tiny_write(const char *folder, const struct tiny_edit *e)
{
    static const struct {
        const char *name, *sizes;
    } parts[] = {
        {"input_layernorm.weight", "8"},
        {"self_attn.q_proj.weight", "8,8"},
        {"self_attn.k_proj.weight", "4,8"},
        {"self_attn.v_proj.weight", "4,8"},
        {"self_attn.o_proj.weight", "8,8"},
        {"post_attention_layernorm.weight", "8"},
        {"mlp.gate_proj.weight", "12,8"},
        {"mlp.up_proj.weight", "12,8"},
        {"mlp.down_proj.weight", "8,12"},
    };
    static struct tiny_writer w;
    char name[128];
    w = (struct tiny_writer){.edit = e, .header = "{", .used = 1};
    tiny_config(folder, e);
    tiny_add(&w, "model.embed_tokens.weight", "10,8");
    for (int l = 0; l < TINY_LAYERS; l++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "model.layers.%d.%s", l, parts[i].name);
            tiny_add(&w, name, parts[i].sizes);
        }
    tiny_add(&w, "model.norm.weight", "8");
    tiny_add(&w, "lm_head.weight", "10,8");
    if (e->add) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(e->add, ":"), e->add);
        tiny_add(&w, name, strchr(e->add, ':') + 1);
    }
    w.header[w.used++] = '}';
    w.header[w.used] = '\0';
    tw_write_safetensors(folder, "model.safetensors", w.header, w.data,
                         (size_t)w.values * sizeof *w.data);
}

#endif
