/* A runner's life: the backend, its weights, the buffers. */
#include <config.h>

#include "base/memory.h"
#include "model/runner_internal.h"

static enum tw_status check_slots(const struct tw_model *model,
                                  const struct tw_ops *ops,
                                  struct tw_error *err)
{
    const struct {
        const char *name;
        bool is_there;
    } slots[] = {
        {"init", ops->init != NULL},
        {"alloc", ops->alloc != NULL},
        {"weight_load", ops->weight_load != NULL},
        {"ffn_load", ops->ffn_load != NULL},
        {"start", ops->start != NULL},
        {"finish", ops->finish != NULL},
        {"embed", ops->embed != NULL},
        {"norm", ops->norm != NULL},
        {"matmul", ops->matmul != NULL},
        {"rope", ops->rope != NULL || model->rope.dims == 0},
        {"attention", ops->attention != NULL},
        {"ffn", ops->ffn != NULL},
        {"head_nll", ops->head_nll != NULL},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (!slots[i].is_there)
            return tw_error_set(err, TW_ERR_UNSUPPORTED,
                                "backend '%s' cannot do %s", ops->name,
                                slots[i].name);
    return TW_OK;
}

static enum tw_status load_layer(struct tw_runner *r, int64_t number,
                                 struct tw_error *err)
{
    const struct tw_layer *l = &r->model->layer[number];
    struct tw_loaded *to = &r->layer[number];
    const struct {
        const struct tw_matrix *matrix;
        struct tw_weight **weight;
    } parts[] = {
        {&l->q, &to->q}, {&l->k, &to->k}, {&l->v, &to->v}, {&l->o, &to->o}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        enum tw_status status =
            r->ops->weight_load(r->ctx, parts[i].matrix, parts[i].weight, err);
        if (status != TW_OK)
            return status;
    }
    return r->ops->ffn_load(r->ctx, &l->ffn, &to->ffn, err);
}

static enum tw_status load_weights(struct tw_runner *r, struct tw_error *err)
{
    const struct tw_model *model = r->model;
    enum tw_status status =
        r->ops->weight_load(r->ctx, &model->embed, &r->embed, err);
    if (status == TW_OK && model->head.data == model->embed.data)
        r->head = r->embed;
    else if (status == TW_OK)
        status = r->ops->weight_load(r->ctx, &model->head, &r->head, err);
    for (int64_t l = 0; status == TW_OK && l < model->layers; l++)
        status = load_layer(r, l, err);
    return status;
}

static void free_buffers(struct tw_runner *r)
{
    for (int i = 0; i < TW_BUFFERS; i++) {
        if (r->buffer[i])
            r->ops->free(r->ctx, r->buffer[i]);
        r->buffer[i] = NULL;
    }
    r->rows = 0;
}

enum tw_status twp_runner_grow(struct tw_runner *r, int64_t rows,
                               struct tw_error *err)
{
    const struct tw_model *m = r->model;
    const int64_t width[TW_BUFFERS] = {
        [TW_X] = m->d_model,
        [TW_NORMED] = m->d_model,
        [TW_Q] = m->heads * m->head_dim,
        [TW_K] = m->kv_heads * m->head_dim,
        [TW_V] = m->kv_heads * m->head_dim,
        [TW_MIXED] = m->heads * m->head_dim,
    };
    if (rows <= r->rows)
        return TW_OK;
    free_buffers(r);
    for (int i = 0; i < TW_BUFFERS; i++) {
        int64_t elements;
        if (__builtin_mul_overflow(rows, width[i], &elements))
            return tw_error_set(err, TW_ERR_NOMEM,
                                "a batch of %lld rows is too large",
                                (long long)rows);
        enum tw_status status =
            r->ops->alloc(r->ctx, elements, &r->buffer[i], err);
        if (status != TW_OK)
            return status;
    }
    r->rows = rows;
    return TW_OK;
}

enum tw_status tw_runner_create(const struct tw_model *model,
                                const struct tw_ops *ops,
                                const struct tw_runner_config *config,
                                struct tw_runner **out, struct tw_error *err)
{
    enum tw_status status = check_slots(model, ops, err);
    if (status != TW_OK)
        return status;
    struct tw_runner *r = tw_calloc(1, sizeof *r);
    if (r)
        r->layer = tw_calloc((size_t)model->layers, sizeof *r->layer);
    if (!r || !r->layer) {
        tw_free(r);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a runner");
    }
    r->model = model;
    r->ops = ops;
    status = ops->init(&config->ops, &r->ctx, err);
    if (status == TW_OK)
        status = load_weights(r, err);
    if (status == TW_OK)
        status = twp_runner_grow(r, config->max_rows, err);
    if (status != TW_OK)
        tw_runner_destroy(r);
    else
        *out = r;
    return status;
}

static void free_weight(struct tw_runner *r, struct tw_weight *weight)
{
    if (weight)
        r->ops->weight_free(r->ctx, weight);
}

void tw_runner_destroy(struct tw_runner *r)
{
    if (!r)
        return;
    free_buffers(r);
    for (int64_t l = 0; l < r->model->layers; l++) {
        free_weight(r, r->layer[l].q);
        free_weight(r, r->layer[l].k);
        free_weight(r, r->layer[l].v);
        free_weight(r, r->layer[l].o);
        if (r->layer[l].ffn)
            r->ops->ffn_free(r->ctx, r->layer[l].ffn);
    }
    if (r->head != r->embed)
        free_weight(r, r->head);
    free_weight(r, r->embed);
    r->ops->fini(r->ctx);
    tw_free(r->layer);
    tw_free(r);
}

enum tw_status tw_runner_plan(struct tw_runner *r, int64_t layer,
                              const struct tw_ffn_seen *seen,
                              struct tw_ffn_plan *plan, struct tw_error *err)
{
    if (!r->ops->plan)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend '%s' cannot do plan", r->ops->name);
    return r->ops->plan(r->ctx, r->layer[layer].ffn, seen, plan, err);
}

enum tw_status tw_runner_plan_use(struct tw_runner *r,
                                  const struct tw_ffn_plan *plans,
                                  struct tw_error *err)
{
    if (!r->ops->plan_use)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend '%s' cannot do plan_use", r->ops->name);
    for (int64_t l = 0; l < r->model->layers; l++) {
        enum tw_status status =
            r->ops->plan_use(r->ctx, r->layer[l].ffn, &plans[l], err);
        if (status != TW_OK)
            return tw_error_prefix(err, "layer %lld", (long long)l), status;
    }
    return TW_OK;
}

const char *tw_runner_device(const struct tw_runner *r)
{
    return r->ops->device(r->ctx);
}
