/* Binds a checkpoint by a family's form: names of tensors, fused or not, with
 * biases or not. */
#include <config.h>

#include <assert.h>
#include <stdio.h>

#include "model/family.h"

/* What one call binds from: a layer's prefix, or the base; NULL: none. */
struct binder {
    struct tw_model *model;
    const struct twp_form *form;
    const char *prefix;
};

/* NAME.weight and, with has_bias, NAME.bias of `rows` values. The weight is
 * [rows][cols] however the file has it. */
static enum tw_status take_linear(const struct binder *b, const char *name,
                                  bool has_bias, int64_t rows, int64_t cols,
                                  struct tw_matrix *weight,
                                  struct tw_matrix *bias, struct tw_error *err)
{
    char text[96];
    bool is_transposed = b->form->is_transposed;
    struct tw_matrix stored = {.data = NULL};
    snprintf(text, sizeof text, "%s.weight", name);
    enum tw_status status =
        twp_take(b->model, b->prefix, text, is_transposed ? cols : rows,
                 is_transposed ? rows : cols, &stored, err);
    if (status == TW_OK && is_transposed)
        status = twp_transpose(b->model, &stored, weight, err);
    else if (status == TW_OK)
        *weight = stored;
    if (status != TW_OK || !has_bias)
        return status;
    snprintf(text, sizeof text, "%s.bias", name);
    return twp_take(b->model, b->prefix, text, 0, rows, bias, err);
}

/* A norm of the model's kind; `rows` 0: a vector. Without a name none. */
static enum tw_status take_norm(const struct binder *b, const char *name,
                                int64_t rows, int64_t cols,
                                struct tw_norm *norm, struct tw_error *err)
{
    char text[96];
    if (!name)
        return TW_OK;
    *norm = b->model->norm;
    if (b->form->is_norm_bare)
        return TW_OK;
    snprintf(text, sizeof text, "%s.weight", name);
    enum tw_status status =
        twp_take(b->model, b->prefix, text, rows, cols, &norm->weight, err);
    if (status != TW_OK || !b->form->has_norm_bias)
        return status;
    snprintf(text, sizeof text, "%s.bias", name);
    return twp_take(b->model, b->prefix, text, rows, cols, &norm->bias, err);
}

/* Rows of q, k or v in a fused tensor. */
struct piece {
    int64_t group, first, rows; /* of a group of `group` rows */
    struct tw_matrix *weight, *bias;
};

static enum tw_status split_qkv(const struct binder *b,
                                const struct tw_matrix *weight,
                                const struct tw_matrix *bias,
                                struct tw_layer *l, struct tw_error *err)
{
    const struct tw_model *m = b->model;
    int64_t groups = b->form->is_qkv_grouped ? m->kv_heads : 1;
    int64_t q = m->heads * m->head_dim / groups;
    int64_t kv = m->kv_heads * m->head_dim / groups, all = q + 2 * kv;
    const struct piece pieces[] = {{all, 0, q, &l->q, &l->q_bias},
                                   {all, q, kv, &l->k, &l->k_bias},
                                   {all, q + kv, kv, &l->v, &l->v_bias}};
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const struct piece *p = &pieces[i];
        if (groups == 1) {
            *p->weight = twp_rows(weight, p->first, p->rows);
            if (bias->data)
                *p->bias = twp_part(bias, p->first, p->rows);
            continue;
        }
        if (status == TW_OK)
            status = twp_gather(b->model, weight, groups, p->group, p->first,
                                p->rows, p->weight, err);
        if (status == TW_OK && bias->data)
            status = twp_gather(b->model, bias, groups, p->group, p->first,
                                p->rows, p->bias, err);
    }
    return status;
}

static enum tw_status bind_qkv(const struct binder *b, struct tw_layer *l,
                               struct tw_error *err)
{
    const struct tw_model *m = b->model;
    const struct twp_form *f = b->form;
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    if (f->qkv) {
        struct tw_matrix weight = {.data = NULL}, bias = {.data = NULL};
        enum tw_status status =
            take_linear(b, f->qkv, f->has_qkv_bias, q + 2 * kv, m->d_model,
                        &weight, &bias, err);
        return status == TW_OK ? split_qkv(b, &weight, &bias, l, err) : status;
    }
    const struct {
        const char *name;
        int64_t rows;
        struct tw_matrix *weight, *bias;
    } parts[] = {{f->q, q, &l->q, &l->q_bias},
                 {f->k, kv, &l->k, &l->k_bias},
                 {f->v, kv, &l->v, &l->v_bias}};
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (status == TW_OK)
            status =
                take_linear(b, parts[i].name, f->has_qkv_bias, parts[i].rows,
                            m->d_model, parts[i].weight, parts[i].bias, err);
    return status;
}

/* The norm of q or k, `heads` of them. */
static enum tw_status bind_qk_norm(const struct binder *b, const char *name,
                                   int64_t heads, struct tw_norm *norm,
                                   struct tw_error *err)
{
    int64_t dim = b->model->head_dim;
    enum twp_qk_norm kind = b->form->qk_norm;
    bool is_each = kind == TWP_QK_EACH, is_whole = kind == TWP_QK_WHOLE;
    enum tw_status status = take_norm(b, name, is_each ? heads : 0,
                                      is_whole ? heads * dim : dim, norm, err);
    norm->groups = is_whole ? 1 : heads;
    return status;
}

static enum tw_status bind_attention(const struct binder *b, struct tw_layer *l,
                                     struct tw_error *err)
{
    const struct tw_model *m = b->model;
    const struct twp_form *f = b->form;
    enum tw_status status = bind_qkv(b, l, err);
    if (status == TW_OK)
        status = take_linear(b, f->o, f->has_o_bias, m->d_model,
                             m->heads * m->head_dim, &l->o, &l->o_bias, err);
    if (status == TW_OK)
        status = bind_qk_norm(b, f->q_norm, m->heads, &l->q_norm, err);
    if (status == TW_OK)
        status = bind_qk_norm(b, f->k_norm, m->kv_heads, &l->k_norm, err);
    return status;
}

/* gate and up stand in one tensor, in this order. */
static enum tw_status bind_gate_up(const struct binder *b,
                                   struct tw_ffn_desc *ffn,
                                   struct tw_error *err)
{
    const struct tw_model *m = b->model;
    struct tw_matrix both = {.data = NULL}, bias = {.data = NULL};
    enum tw_status status =
        take_linear(b, b->form->gate_up, b->form->has_ffn_bias, 2 * m->d_ff,
                    m->d_model, &both, &bias, err);
    if (status != TW_OK)
        return status;
    ffn->gate = twp_rows(&both, 0, m->d_ff);
    ffn->up = twp_rows(&both, m->d_ff, m->d_ff);
    if (bias.data) {
        ffn->gate_bias = twp_part(&bias, 0, m->d_ff);
        ffn->up_bias = twp_part(&bias, m->d_ff, m->d_ff);
    }
    return TW_OK;
}

static enum tw_status bind_ffn(const struct binder *b, struct tw_ffn_desc *ffn,
                               struct tw_error *err)
{
    const struct tw_model *m = b->model;
    const struct twp_form *f = b->form;
    enum tw_status status = TW_OK;
    if (!f->down) // the family's own file binds it
        return TW_OK;
    if (f->gate_up) {
        status = bind_gate_up(b, ffn, err);
    } else {
        if (m->is_gated)
            status = take_linear(b, f->gate, f->has_ffn_bias, m->d_ff,
                                 m->d_model, &ffn->gate, &ffn->gate_bias, err);
        if (status == TW_OK)
            status = take_linear(b, f->up, f->has_ffn_bias, m->d_ff, m->d_model,
                                 &ffn->up, &ffn->up_bias, err);
    }
    if (status == TW_OK)
        status = take_linear(b, f->down, f->has_ffn_bias, m->d_model, m->d_ff,
                             &ffn->down, &ffn->down_bias, err);
    return status;
}

static enum tw_status bind_layer(const struct binder *b, struct tw_layer *l,
                                 struct tw_error *err)
{
    const struct twp_form *f = b->form;
    const struct {
        const char *name;
        struct tw_norm *norm;
    } norms[] = {
        {f->attn_norm, &l->attn_norm},
        {f->attn_out_norm, &l->attn_out_norm},
        {f->attn_sum_norm, &l->attn_sum_norm},
        {f->ffn_norm, &l->ffn_norm},
        {f->ffn_out_norm, &l->ffn_out_norm},
        {f->ffn_sum_norm, &l->ffn_sum_norm},
    };
    enum tw_status status = TW_OK;
    l->is_parallel = f->is_parallel;
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (status == TW_OK)
            status = take_norm(b, norms[i].name, 0, b->model->d_model,
                               norms[i].norm, err);
    if (status == TW_OK)
        status = bind_attention(b, l, err);
    if (status == TW_OK)
        status = bind_ffn(b, &l->ffn, err);
    return status;
}

/* The base under which the file has the embedding, else the first. */
static const char *find_base(const struct tw_model *model,
                             const struct twp_form *form)
{
    char text[160];
    const char *const *base = form->bases;
    for (; base && *base; base++) {
        snprintf(text, sizeof text, "%s%s%s.weight", *base, **base ? "." : "",
                 form->embed);
        if (tw_tensors_find(&model->checkpoint.tensors, text))
            break;
    }
    if (base && !*base)
        base = form->bases;
    return base && **base ? *base : NULL;
}

/* The embedding, whose name has the base, and the head, whose has not. */
static enum tw_status bind_embedding(const struct binder *b,
                                     struct tw_error *err)
{
    struct tw_model *m = b->model;
    const struct twp_form *f = b->form;
    char embed[160], head[96];
    snprintf(embed, sizeof embed, "%s%s%s.weight", b->prefix ? b->prefix : "",
             b->prefix ? "." : "", f->embed);
    snprintf(head, sizeof head, "%s.weight", f->head);
    enum tw_status status = twp_embedding(m, embed, head, f->is_tied, err);
    if (status == TW_OK && f->has_head_bias) {
        snprintf(head, sizeof head, "%s.bias", f->head);
        status = twp_take(m, NULL, head, 0, m->vocab, &m->head_form.bias, err);
    }
    return status;
}

/* What stands before the first layer and after the last. */
static enum tw_status bind_ends(const struct binder *b, struct tw_error *err)
{
    struct tw_model *m = b->model;
    const struct twp_form *f = b->form;
    const struct {
        const char *name;
        int64_t rows, cols;
        struct tw_matrix *matrix;
    } parts[] = {
        {f->positions, m->position_first + m->max_position, m->d_model,
         &m->positions},
        {f->embed_in, m->d_model, m->d_embed, &m->embed_in},
        {f->embed_out, m->d_embed, m->d_model, &m->embed_out},
    };
    enum tw_status status = bind_embedding(b, err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char text[96];
        snprintf(text, sizeof text, "%s.weight",
                 parts[i].name ? parts[i].name : "");
        if (status == TW_OK && parts[i].name)
            status = twp_take(m, b->prefix, text, parts[i].rows, parts[i].cols,
                              parts[i].matrix, err);
    }
    if (status == TW_OK)
        status =
            take_norm(b, f->embed_norm, 0, m->d_model, &m->embed_norm, err);
    if (status == TW_OK)
        status =
            take_norm(b, f->final_norm, 0, m->d_model, &m->final_norm, err);
    return status;
}

enum tw_status twp_bind(struct tw_model *model, const struct twp_form *form,
                        struct tw_error *err)
{
    char prefix[160];
    const char *base = find_base(model, form);
    struct binder b = {model, form, base};
    assert(model->norm.kind != TW_NORM_NONE);
    enum tw_status status = bind_ends(&b, err);
    b.prefix = prefix;
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++) {
        snprintf(prefix, sizeof prefix, "%s%s%s.%lld", base ? base : "",
                 base ? "." : "", form->layers, (long long)l);
        status = bind_layer(&b, &model->layer[l], err);
    }
    return status;
}
