/* A runner's life: the backend, its weights, the buffers. */
#include <config.h>

#include "base/memory.h"
#include "model/runner_internal.h"

bool twp_is_added_directly(const struct tw_layer *layer,
                           const struct tw_norm *out_norm)
{
    return out_norm->kind == TW_NORM_NONE && layer->residual_scale == 1;
}

bool twp_reads_stream(const struct tw_layer *layer)
{
    return layer->ffn_norm.kind == TW_NORM_NONE &&
           (!layer->is_parallel || layer->attn_norm.kind == TW_NORM_NONE);
}

/* What some layer of the model needs. */
struct needs {
    bool norm, rope, ffn_in, part;
};

static struct needs find_needs(const struct tw_model *model)
{
    struct needs needs = {.norm = model->final_norm.kind != TW_NORM_NONE ||
                                  model->embed_norm.kind != TW_NORM_NONE};
    for (int64_t i = 0; i < model->layers; i++) {
        const struct tw_layer *l = &model->layer[i];
        needs.norm |= l->attn_norm.kind || l->ffn_norm.kind || l->q_norm.kind ||
                      l->k_norm.kind || l->attn_out_norm.kind ||
                      l->attn_sum_norm.kind || l->ffn_out_norm.kind ||
                      l->ffn_sum_norm.kind;
        needs.rope |= l->rope != NULL;
        needs.ffn_in |= l->is_parallel && l->ffn_norm.kind != TW_NORM_NONE;
        needs.part |= !twp_is_added_directly(l, &l->attn_out_norm) ||
                      !twp_is_added_directly(l, &l->ffn_out_norm) ||
                      twp_reads_stream(l);
    }
    return needs;
}

static enum tw_status check_slots(const struct tw_model *model,
                                  const struct tw_ops *ops,
                                  struct tw_error *err)
{
    struct needs needs = find_needs(model);
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
        {"positions", ops->positions || !model->positions.data},
        {"norm", ops->norm || !needs.norm},
        {"matmul", ops->matmul != NULL},
        {"rope", ops->rope || !needs.rope},
        {"attention", ops->attention != NULL},
        {"add", ops->add || !needs.part},
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

/* Layer by layer, so that a backend can tell them apart. */
static enum tw_status load_layers(struct tw_runner *r, struct tw_error *err)
{
    const struct tw_layer *first = &r->model->layer[0];
    const struct tw_matrix *const matrix[] = {&first->q, &first->k, &first->v,
                                              &first->o};
    const struct tw_layers layers = {.count = r->model->layers,
                                     .matrix = matrix,
                                     .matrices = sizeof matrix / sizeof *matrix,
                                     .ffn = &first->ffn,
                                     .rows = r->most_rows,
                                     .row_elements =
                                         twp_runner_width(r->model)};
    enum tw_status status = TW_OK;
    for (int64_t l = 0; status == TW_OK && l < layers.count; l++) {
        if (r->ops->layer_load)
            status = r->ops->layer_load(r->ctx, &layers, l, err);
        if (status == TW_OK)
            status = load_layer(r, l, err);
    }
    return status;
}

static enum tw_status load_ends(struct tw_runner *r, struct tw_error *err)
{
    const struct tw_model *model = r->model;
    const struct {
        const struct tw_matrix *matrix;
        struct tw_weight **weight;
    } parts[] = {{&model->embed_in, &r->embed_in},
                 {&model->embed_out, &r->embed_out},
                 {&model->positions, &r->positions}};
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (status == TW_OK && parts[i].matrix->data)
            status = r->ops->weight_load(r->ctx, parts[i].matrix,
                                         parts[i].weight, err);
    return status;
}

static enum tw_status load_weights(struct tw_runner *r, struct tw_error *err)
{
    const struct tw_model *model = r->model;
    enum tw_status status =
        r->ops->weight_load(r->ctx, &model->embed, &r->embed, err);
    if (status == TW_OK)
        status = load_ends(r, err);
    if (status == TW_OK && model->head.data == model->embed.data)
        r->head = r->embed;
    else if (status == TW_OK)
        status = r->ops->weight_load(r->ctx, &model->head, &r->head, err);
    return status == TW_OK ? load_layers(r, err) : status;
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

/* Floats of a row in each buffer; 0: the model does not need it. */
static void find_widths(const struct tw_model *m, int64_t width[TW_BUFFERS])
{
    struct needs needs = find_needs(m);
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    width[TW_X] = width[TW_NORMED] = m->d_model;
    width[TW_FFN_IN] = needs.ffn_in ? m->d_model : 0;
    width[TW_PART] = needs.part ? m->d_model : 0;
    width[TW_NARROW] = m->d_embed != m->d_model ? m->d_embed : 0;
    width[TW_Q] = width[TW_MIXED] = q;
    width[TW_K] = width[TW_V] = kv;
}

int64_t twp_runner_width(const struct tw_model *model)
{
    int64_t width[TW_BUFFERS], sum = 0;
    find_widths(model, width);
    for (int i = 0; i < TW_BUFFERS; i++)
        sum += width[i];
    return sum;
}

enum tw_status twp_runner_grow(struct tw_runner *r, int64_t rows,
                               struct tw_error *err)
{
    int64_t width[TW_BUFFERS];
    find_widths(r->model, width);
    if (rows <= r->rows)
        return TW_OK;
    rows = rows > r->most_rows ? rows : r->most_rows;
    twp_runner_wait(r);
    free_buffers(r);
    for (int i = 0; i < TW_BUFFERS; i++) {
        int64_t elements;
        if (width[i] == 0)
            continue;
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

void tw_runner_shrink(struct tw_runner *r, int64_t rows)
{
    twp_runner_wait(r);
    free_buffers(r);
    if (r->ops->trim)
        r->ops->trim(r->ctx);
    r->most_rows = rows;
}

/* Buffers that are too large now may not be for the batches that come. */
static enum tw_status make_buffers(struct tw_runner *r, struct tw_error *err)
{
    struct tw_error own = {0};
    enum tw_status status = twp_runner_grow(r, r->most_rows, &own);
    if (status == TW_ERR_NOMEM)
        free_buffers(r);
    else if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
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
    r->most_rows = config->max_rows;
    status = ops->init(&config->ops, &r->ctx, err);
    if (status == TW_OK)
        status = load_weights(r, err);
    if (status == TW_OK)
        status = make_buffers(r, err);
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
    twp_runner_wait(r);
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
    free_weight(r, r->embed_in);
    free_weight(r, r->embed_out);
    free_weight(r, r->positions);
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

void *tw_runner_context(const struct tw_runner *r)
{
    return r->ctx;
}

const char *tw_runner_device(const struct tw_runner *r)
{
    return r->ops->device(r->ctx);
}

const char *tw_runner_weights(const struct tw_runner *r)
{
    return r->ops->weights ? r->ops->weights(r->ctx) : NULL;
}
