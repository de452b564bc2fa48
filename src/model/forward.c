/* The forward pass: one function a part, in the order of the network. A part
 * is a line per operation; what a family does not have is absent data. */
#include <config.h>

#include "model/runner_internal.h"

/* q, k, v of the normed rows, turned by their positions. */
static enum tw_status project(struct tw_runner *r, int64_t number,
                              struct tw_error *err)
{
    const struct tw_ops *ops = r->ops;
    const struct tw_layer *l = &r->model->layer[number];
    const struct tw_loaded *w = &r->layer[number];
    const struct tw_rope *rope = &r->model->rope;
    const struct tw_attention *a = &l->attention;
    void **b = r->buffer;
    enum tw_status status =
        ops->matmul(r->ctx, b[TW_Q], b[TW_NORMED], w->q, &l->q_bias, NULL, err);
    if (status == TW_OK)
        status = ops->matmul(r->ctx, b[TW_K], b[TW_NORMED], w->k, &l->k_bias,
                             NULL, err);
    if (status == TW_OK)
        status = ops->matmul(r->ctx, b[TW_V], b[TW_NORMED], w->v, &l->v_bias,
                             NULL, err);
    if (status == TW_OK && rope->dims > 0)
        status = ops->rope(r->ctx, b[TW_Q], a->heads, a->head_dim, rope, err);
    if (status == TW_OK && rope->dims > 0)
        status =
            ops->rope(r->ctx, b[TW_K], a->kv_heads, a->head_dim, rope, err);
    return status;
}

static enum tw_status attend(struct tw_runner *r, int64_t number,
                             struct tw_error *err)
{
    const struct tw_ops *ops = r->ops;
    const struct tw_layer *l = &r->model->layer[number];
    void **b = r->buffer;
    enum tw_status status = ops->norm(r->ctx, b[TW_NORMED], b[TW_X],
                                      r->model->d_model, &l->attn_norm, err);
    if (status == TW_OK)
        status = project(r, number, err);
    if (status == TW_OK)
        status = ops->attention(r->ctx, b[TW_MIXED], b[TW_Q], b[TW_K], b[TW_V],
                                &l->attention, err);
    if (status == TW_OK)
        status = ops->matmul(r->ctx, b[TW_X], b[TW_MIXED], r->layer[number].o,
                             &l->o_bias, b[TW_X], err);
    return status;
}

static enum tw_status feed_forward(struct tw_runner *r, int64_t number,
                                   const struct tw_probes *probes,
                                   struct tw_layer_obs *obs,
                                   struct tw_error *err)
{
    const struct tw_layer *l = &r->model->layer[number];
    void **b = r->buffer;
    enum tw_status status = r->ops->norm(r->ctx, b[TW_NORMED], b[TW_X],
                                         r->model->d_model, &l->ffn_norm, err);
    if (status == TW_OK)
        status = r->ops->ffn(r->ctx, b[TW_X], b[TW_NORMED], b[TW_X],
                             r->layer[number].ffn, probes, obs, err);
    if (r->ops->layer_end)
        r->ops->layer_end(r->ctx);
    return status;
}

static enum tw_status compute_head(struct tw_runner *r, struct tw_head_obs *obs,
                                   const struct tw_logits *logits,
                                   struct tw_error *err)
{
    struct tw_head_obs none = {.nll = NULL};
    struct tw_head head = r->model->head_form;
    void **b = r->buffer;
    if (logits) {
        head.logit_rows = logits->rows;
        head.logit_row = logits->row;
        head.logits = logits->logits;
    }
    if (!obs)
        obs = &none;
    if (!obs->nll && head.logit_rows == 0)
        return TW_OK;
    enum tw_status status =
        r->ops->norm(r->ctx, b[TW_NORMED], b[TW_X], r->model->d_model,
                     &r->model->final_norm, err);
    if (status == TW_OK)
        status =
            r->ops->head_nll(r->ctx, b[TW_NORMED], r->head, &head, obs, err);
    return status;
}

static enum tw_status check_tokens(const struct tw_model *model,
                                   const struct tw_batch *batch,
                                   struct tw_error *err)
{
    for (int64_t row = 0; row < batch->rows; row++)
        if (batch->token[row] < 0 || batch->token[row] >= model->vocab)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %d is not in the model's vocabulary of "
                                "%lld",
                                batch->token[row], (long long)model->vocab);
    return TW_OK;
}

/* The lowest layer in which some h is not finite. */
static enum tw_status check_finite(const struct tw_model *model,
                                   const struct tw_batch *batch,
                                   const struct tw_layer_obs *obs,
                                   struct tw_error *err)
{
    for (int64_t l = 0; l < model->layers; l++) {
        int64_t row = obs[l].bad_row, seq = 0;
        if (row < 0)
            continue;
        while (seq + 1 < batch->seqs && batch->offset[seq + 1] <= row)
            seq++;
        int64_t place = batch->start[seq] + row - batch->offset[seq];
        return tw_error_set(err, TW_ERR_NUMERIC,
                            "layer %lld, token %d (row %lld of document "
                            "%lld), neuron %d: h is not a finite number",
                            (long long)l, batch->token[row], (long long)place,
                            (long long)batch->document[seq], obs[l].bad_neuron);
    }
    return TW_OK;
}

enum tw_status
tw_runner_batch(struct tw_runner *r, const struct tw_batch *batch,
                const struct tw_probes *probes, struct tw_layer_obs *obs,
                struct tw_head_obs *head, const struct tw_logits *logits,
                struct tw_error *err)
{
    const struct tw_model *model = r->model;
    enum tw_status status = check_tokens(model, batch, err);
    if (status == TW_OK)
        status = twp_runner_grow(r, batch->rows, err);
    if (status == TW_OK)
        status = r->ops->start(r->ctx, batch, err);
    if (status != TW_OK)
        return status;
    for (int64_t l = 0; l < model->layers; l++)
        tw_layer_obs_reset(&obs[l], batch->rows);
    status = r->ops->embed(r->ctx, r->buffer[TW_X], r->embed,
                           model->embed_scale, err);
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++) {
        status = attend(r, l, err);
        if (status == TW_OK)
            status = feed_forward(r, l, probes, &obs[l], err);
    }
    if (status == TW_OK)
        status = compute_head(r, head, logits, err);
    enum tw_status ended = r->ops->finish(r->ctx, err);
    if (status == TW_OK)
        status = ended;
    return status == TW_OK ? check_finite(model, batch, obs, err) : status;
}
