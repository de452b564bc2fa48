/* The forward pass: one function a part, in the order of the network. What
 * a family does not have is absent data: there is no family here, only facts
 * of tw_model and tw_layer. */
#include <config.h>

#include "model/runner_internal.h"

/* y = norm(x); a norm that is not there is left out. */
static enum tw_status normalise(struct tw_runner *r, void *y, const void *x,
                                int64_t width, const struct tw_norm *norm,
                                struct tw_error *err)
{
    if (norm->kind == TW_NORM_NONE)
        return TW_OK;
    return r->ops->norm(r->ctx, y, x, width, norm, err);
}

/* Token embeddings, what widens them, positions: the residual stream. */
static enum tw_status embed(struct tw_runner *r, struct tw_error *err)
{
    const struct tw_model *m = r->model;
    void **b = r->buffer;
    enum tw_status status =
        r->ops->embed(r->ctx, b[r->embed_in ? TW_NARROW : TW_X], r->embed,
                      m->embed_scale, err);
    if (status == TW_OK && r->embed_in)
        status = r->ops->matmul(r->ctx, b[TW_X], b[TW_NARROW], r->embed_in,
                                NULL, NULL, err);
    if (status == TW_OK && r->positions)
        status = r->ops->positions(r->ctx, b[TW_X], r->positions,
                                   m->position_first, err);
    if (status == TW_OK)
        status =
            normalise(r, b[TW_X], b[TW_X], m->d_model, &m->embed_norm, err);
    return status;
}

/* q or k of the rows `in`: product, norm, turn by position. */
static enum tw_status
project(struct tw_runner *r, const struct tw_layer *l, void *y, const void *in,
        const struct tw_weight *w, const struct tw_matrix *bias,
        const struct tw_norm *norm, int64_t heads, struct tw_error *err)
{
    int64_t dim = l->attention.head_dim;
    enum tw_status status = r->ops->matmul(r->ctx, y, in, w, bias, NULL, err);
    if (status == TW_OK)
        status = normalise(r, y, y, heads * dim, norm, err);
    if (status == TW_OK && l->rope)
        status = r->ops->rope(r->ctx, y, heads, dim, l->rope, err);
    return status;
}

/* What attention mixes, from the rows `in`, in TW_MIXED. */
static enum tw_status mix(struct tw_runner *r, int64_t number, const void *in,
                          struct tw_error *err)
{
    const struct tw_ops *ops = r->ops;
    const struct tw_layer *l = &r->model->layer[number];
    const struct tw_loaded *w = &r->layer[number];
    const struct tw_attention *a = &l->attention;
    void **b = r->buffer;
    enum tw_status status =
        project(r, l, b[TW_Q], in, w->q, &l->q_bias, &l->q_norm, a->heads, err);
    if (status == TW_OK)
        status = project(r, l, b[TW_K], in, w->k, &l->k_bias, &l->k_norm,
                         a->kv_heads, err);
    if (status == TW_OK)
        status = ops->matmul(r->ctx, b[TW_V], in, w->v, &l->v_bias, NULL, err);
    if (status == TW_OK)
        status = ops->attention(r->ctx, b[TW_MIXED], b[TW_Q], b[TW_K], b[TW_V],
                                a, err);
    return status;
}

/* x = sum_norm(x + residual_scale out_norm(part)). */
static enum tw_status add_part(struct tw_runner *r, const struct tw_layer *l,
                               const struct tw_norm *out_norm,
                               struct tw_error *err)
{
    void **b = r->buffer;
    int64_t width = r->model->d_model;
    enum tw_status status =
        normalise(r, b[TW_PART], b[TW_PART], width, out_norm, err);
    if (status == TW_OK)
        status = r->ops->add(r->ctx, b[TW_X], b[TW_X], b[TW_PART], width,
                             l->residual_scale, err);
    return status;
}

/* The attention part, and the norm of a parallel feed-forward part, which
 * reads the stream before attention is added. */
static enum tw_status attend(struct tw_runner *r, int64_t number,
                             struct tw_error *err)
{
    const struct tw_layer *l = &r->model->layer[number];
    int64_t width = r->model->d_model;
    void **b = r->buffer;
    bool is_direct = twp_is_added_directly(l, &l->attn_out_norm);
    void *in = b[l->attn_norm.kind == TW_NORM_NONE ? TW_X : TW_NORMED];
    enum tw_status status =
        normalise(r, b[TW_NORMED], b[TW_X], width, &l->attn_norm, err);
    if (status == TW_OK && l->is_parallel)
        status = normalise(r, b[TW_FFN_IN], b[TW_X], width, &l->ffn_norm, err);
    if (status == TW_OK)
        status = mix(r, number, in, err);
    if (status == TW_OK)
        status = r->ops->matmul(r->ctx, b[is_direct ? TW_X : TW_PART],
                                b[TW_MIXED], r->layer[number].o, &l->o_bias,
                                is_direct ? b[TW_X] : NULL, err);
    if (status == TW_OK && !is_direct)
        status = add_part(r, l, &l->attn_out_norm, err);
    if (status == TW_OK)
        status = normalise(r, b[TW_X], b[TW_X], width, &l->attn_sum_norm, err);
    return status;
}

/* The rows that the feed-forward part reads. */
static enum tw_status ffn_input(struct tw_runner *r, const struct tw_layer *l,
                                void **in, struct tw_error *err)
{
    void **b = r->buffer;
    bool has_norm = l->ffn_norm.kind != TW_NORM_NONE;
    *in = b[TW_NORMED];
    if (twp_reads_stream(l))
        *in = b[TW_X];
    else if (l->is_parallel && has_norm)
        *in = b[TW_FFN_IN];
    if (l->is_parallel)
        return TW_OK;
    return normalise(r, b[TW_NORMED], b[TW_X], r->model->d_model, &l->ffn_norm,
                     err);
}

static enum tw_status feed_forward(struct tw_runner *r, int64_t number,
                                   const struct tw_probes *probes,
                                   struct tw_layer_obs *obs,
                                   struct tw_error *err)
{
    const struct tw_layer *l = &r->model->layer[number];
    void **b = r->buffer, *in = NULL;
    bool is_direct =
        twp_is_added_directly(l, &l->ffn_out_norm) && !twp_reads_stream(l);
    enum tw_status status = ffn_input(r, l, &in, err);
    if (status == TW_OK)
        status = twp_mark_put(r, twp_mark_index(number, TWP_MARK_FFN), err);
    if (status == TW_OK)
        status = r->ops->ffn(r->ctx, b[is_direct ? TW_X : TW_PART], in,
                             is_direct ? b[TW_X] : NULL, r->layer[number].ffn,
                             probes, obs, err);
    if (status == TW_OK)
        status = twp_mark_put(r, twp_mark_index(number, TWP_MARK_FFN_END), err);
    if (status == TW_OK && !is_direct)
        status = add_part(r, l, &l->ffn_out_norm, err);
    if (status == TW_OK)
        status = normalise(r, b[TW_X], b[TW_X], r->model->d_model,
                           &l->ffn_sum_norm, err);
    if (r->ops->layer_end)
        r->ops->layer_end(r->ctx);
    return status;
}

/* obs is cleared late, beside what the device was given before. */
static enum tw_status compute_layer(struct tw_runner *r, int64_t number,
                                    int64_t rows,
                                    const struct tw_probes *probes,
                                    struct tw_layer_obs *obs,
                                    struct tw_error *err)
{
    enum tw_status status =
        twp_mark_put(r, twp_mark_index(number, TWP_MARK_LAYER), err);
    if (status == TW_OK)
        status = attend(r, number, err);
    if (obs)
        tw_layer_obs_reset(obs, rows);
    if (status == TW_OK)
        status = feed_forward(r, number, probes, obs, err);
    if (status == TW_OK)
        status =
            twp_mark_put(r, twp_mark_index(number, TWP_MARK_LAYER_END), err);
    return status;
}

static enum tw_status compute_head(struct tw_runner *r, struct tw_head_obs *obs,
                                   const struct tw_logits *logits,
                                   struct tw_error *err)
{
    struct tw_head_obs none = {.nll = NULL};
    const struct tw_model *m = r->model;
    struct tw_head head = m->head_form;
    void **b = r->buffer, *in;
    if (logits) {
        head.logit_rows = logits->rows;
        head.logit_row = logits->row;
        head.logits = logits->logits;
    }
    if (!obs)
        obs = &none;
    if (!obs->nll && head.logit_rows == 0)
        return TW_OK;
    in = b[m->final_norm.kind == TW_NORM_NONE ? TW_X : TW_NORMED];
    enum tw_status status =
        normalise(r, b[TW_NORMED], b[TW_X], m->d_model, &m->final_norm, err);
    if (status == TW_OK && r->embed_out) {
        status = r->ops->matmul(r->ctx, b[TW_NARROW], in, r->embed_out, NULL,
                                NULL, err);
        in = b[TW_NARROW];
    }
    if (status == TW_OK)
        status = r->ops->head_nll(r->ctx, in, r->head, &head, obs, err);
    return status;
}

enum tw_status twp_runner_pass(struct tw_runner *r, int64_t rows,
                               const struct tw_probes *probes,
                               struct tw_layer_obs *obs,
                               struct tw_head_obs *head,
                               const struct tw_logits *logits,
                               struct tw_error *err)
{
    enum tw_status status = embed(r, err);
    for (int64_t l = 0; status == TW_OK && l < r->model->layers; l++)
        status = compute_layer(r, l, rows, probes, obs ? &obs[l] : NULL, err);
    if (status == TW_OK)
        status = compute_head(r, head, logits, err);
    return status;
}
