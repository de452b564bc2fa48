/* A tiny GGUF model in a folder of its own, and what can be wrong with it. */
#ifndef TESTS_GGUF_CASE_H
#define TESTS_GGUF_CASE_H

#include "base/memory.h"
#include "load/checkpoint.h"
#include "load/gguf.h"
#include "tw_check.h"
#include "tw_gguf.h"

static const char *folder;
static struct gguf_writer w;

static void setup(void)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s", tw_folder_make());
    folder = path;
}

static void teardown(void)
{
    tw_folder_remove(folder);
}

/* --- A tiny model: 1 layer, width 32, 2 heads of 16, 1 kv head --- */

enum { D = 32, F = 64, V = 4, KV = 16, Q8 = 8, Q8_BYTES = 34 };

/* What to do otherwise: one key, or one tensor's data. */
struct fault {
    const char *key, *text; /* a key to leave out, or its text instead */
    int kind;               /* of an added key "added", else -1 */
    const char *magic;
    uint32_t version;
    uint64_t tensors, values; /* more than there are */
    uint32_t type;            /* of blk.0.attn_q instead of Q8_0, +1 */
    uint64_t rows, cols, offset;
    const char *name; /* of token_embd.weight */
    uint32_t alignment;
    uint32_t part, parts; /* split.no and split.count, if parts > 0 */
};

static void put_keys(const struct fault *f)
{
    static const struct {
        const char *key;
        uint32_t number;
    } numbers[] = {
        {"llama.block_count", 1},
        {"llama.embedding_length", D},
        {"llama.feed_forward_length", F},
        {"llama.attention.head_count", 2},
        {"llama.attention.head_count_kv", 1},
        {"llama.context_length", 64},
    };
    gguf_key_text(&w, "general.architecture",
                  f->text && !f->key ? f->text : "llama");
    for (size_t i = 0; i < 6; i++) {
        bool is_it = f->key && strcmp(f->key, numbers[i].key) == 0;
        if (is_it && f->text)
            gguf_key_text(&w, numbers[i].key, f->text);
        else
            gguf_key_u32(&w, is_it ? "elsewhere" : numbers[i].key,
                         numbers[i].number);
    }
    gguf_key(&w, "llama.attention.layer_norm_rms_epsilon", GGUF_F32);
    gguf_float(&w, 1e-5f);
    gguf_key_u32(&w, "general.alignment", f->alignment ? f->alignment : 32);
}

static const struct part {
    const char *name;
    uint32_t type;
    uint64_t rows, cols;
} parts[] = {
    {"token_embd.weight", 0, V, D},        {"output_norm.weight", 0, 0, D},
    {"blk.0.attn_norm.weight", 0, 0, D},   {"blk.0.attn_q.weight", Q8, D, D},
    {"blk.0.attn_k.weight", 0, KV, D},     {"blk.0.attn_v.weight", 1, KV, D},
    {"blk.0.attn_output.weight", 0, D, D}, {"blk.0.ffn_norm.weight", 0, 0, D},
    {"blk.0.ffn_gate.weight", 0, F, D},    {"blk.0.ffn_up.weight", Q8, F, D},
    {"blk.0.ffn_down.weight", 0, D, F},
};
enum { PARTS = sizeof parts / sizeof *parts };

static uint64_t bytes_of(const struct part *p)
{
    uint64_t values = (p->rows ? p->rows : 1) * p->cols;
    return p->type == Q8  ? values / 32 * Q8_BYTES
           : p->type == 1 ? values * 2
                          : values * 4;
}

/* Values: of a Q8_0 block r scale 1, quanta (row + i) % 100; of floats their
 * row and column. */
static void put_data(const struct part *p)
{
    uint64_t rows = p->rows ? p->rows : 1;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < p->cols; c++) {
            if (p->type == Q8 && c % 32 == 0)
                gguf_put(&w, 0x3c00, 2);
            if (p->type == Q8)
                gguf_put(&w, (r + c) % 100, 1);
            else if (p->type == 1)
                gguf_put(&w, 0x3c00 + r, 2);
            else
                gguf_float(&w, (float)r + (float)c / 64);
        }
    gguf_align(&w);
}

static void make(const struct fault *f, int from, int to)
{
    uint64_t offset = 0;
    gguf_start(&w, (uint64_t)(to - from) + f->tensors,
               (from == 0 ? 9 : 0) + (f->parts ? 3 : 0) + (f->kind >= 0) +
                   f->values);
    if (f->magic)
        memcpy(w.bytes, f->magic, 4);
    if (f->version)
        w.bytes[4] = (uint8_t)f->version, w.bytes[7] = f->version == 256;
    if (from == 0)
        put_keys(f);
    if (f->parts) {
        gguf_key_u32(&w, "split.no", f->part);
        gguf_key_u32(&w, "split.count", f->parts);
        gguf_key_u32(&w, "split.tensors.count", PARTS);
    }
    if (f->kind >= 0)
        gguf_key_u32(&w, "added", 7), w.bytes[w.size - 8] = (uint8_t)f->kind;
    for (int i = from; i < to; i++) {
        const struct part *p = &parts[i];
        bool is_q = i == 3;
        gguf_tensor(&w, i == 0 && f->name ? f->name : p->name,
                    is_q && f->type ? f->type - 1 : p->type,
                    is_q && f->rows ? f->rows : p->rows,
                    is_q && f->cols ? f->cols : p->cols,
                    is_q && f->offset ? f->offset : offset);
        offset += (bytes_of(p) + 31) / 32 * 32;
    }
    gguf_align(&w);
    for (int i = from; i < to; i++)
        put_data(&parts[i]);
}

static const struct fault none = {.kind = -1};

#endif
