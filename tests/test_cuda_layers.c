/* Layers that don't fit the device (kernels/cuda/place.c, ring.c): whatever
 * number of them stays there, every output bit and every count is that of the
 * model which fits; whatever order layers and batches come in. Less memory than
 * there is: TW_CUDA_MEMORY. Exits 77 without a GPU. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "kernels/cuda/layers.h"
#include "tests/ops_fixture.h"

extern const struct tw_ops tw_ops_cuda;
#define CUDA tw_ops_cuda

enum { LAYERS = 5, VOCAB = 11, BATCHES = 3, ROWS = 120, ALL = LAYERS };

/* A model of LAYERS layers: x += (x a^T) b^T; x += ffn(norm(x)). */
struct shape {
    int64_t d, m, f;
    struct tw_activation activation;
    enum tw_dtype type, stored;
    bool is_gated, has_bias;
};
static const struct shape shapes[] = {
    {64, 96, 200, {TW_ACT_FATRELU, 2.5f, ""}, TW_BF16, TW_BF16, true, false},
    {36, 40, 300, {TW_ACT_FATRELU, 2, ""}, TW_F16, TW_F32, false, true},
    {72, 24, 136, {TW_ACT_SILU, 0, ""}, TW_BF16, TW_F32, true, true},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

static const int64_t lengths[BATCHES][FIX_SEQS] = {{5, 64, 51}, {40}, {1, 99}};

static const struct tw_active counted = {.kind = TW_ACTIVE_HIDDEN,
                                         .name = "hidden"};
static const struct tw_probes probes = {1, &counted};
static const struct tw_norm norm = {.kind = TW_NORM_RMS, .eps = 1e-5f};

struct layer {
    struct tw_matrix a, b;
    struct tw_ffn_desc ffn;
};

struct net {
    const struct shape *shape;
    struct tw_matrix embed;
    struct layer layer[LAYERS];
};

static struct tw_matrix make(const struct shape *s, int64_t rows, int64_t cols)
{
    return fix_matrix(s->stored, rows, cols, 0.4f);
}

static struct net *net_make(const struct shape *s)
{
    struct net *net = tw_calloc(1, sizeof *net);
    ck_assert_ptr_nonnull(net);
    fix_seed(7);
    net->shape = s;
    net->embed = make(s, VOCAB, s->d);
    for (int l = 0; l < LAYERS; l++) {
        struct tw_ffn_desc *ffn = &net->layer[l].ffn;
        net->layer[l].a = make(s, s->m, s->d);
        net->layer[l].b = make(s, s->d, s->m);
        *ffn = (struct tw_ffn_desc){.d_model = s->d,
                                    .d_ff = s->f,
                                    .activation = s->activation,
                                    .up = make(s, s->f, s->d),
                                    .down = make(s, s->d, s->f),
                                    .path = TW_FFN_TWELL};
        if (s->is_gated)
            ffn->gate = make(s, s->f, s->d);
        if (s->has_bias)
            ffn->up_bias = make(s, 1, s->f);
        if (s->has_bias)
            ffn->down_bias = make(s, 1, s->d);
        if (!tw_activation_is_sparse(s->activation.act))
            ffn->path = TW_FFN_DENSE;
    }
    return net;
}

static void net_free(struct net *net)
{
    fix_matrix_fini(&net->embed);
    for (int l = 0; l < LAYERS; l++) {
        struct layer *layer = &net->layer[l];
        struct tw_matrix *all[] = {&layer->a,
                                   &layer->b,
                                   &layer->ffn.gate,
                                   &layer->ffn.up,
                                   &layer->ffn.down,
                                   &layer->ffn.up_bias,
                                   &layer->ffn.down_bias};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            fix_matrix_fini(all[i]);
    }
    tw_free(net);
}

/* The net in a context. */
struct loaded {
    const struct net *net;
    void *ctx;
    struct tw_weight *embed, *a[LAYERS], *b[LAYERS];
    struct tw_ffn *ffn[LAYERS];
    void *x[BATCHES], *between, *normed;
};

static enum tw_status load_layers(struct loaded *to, int64_t rows,
                                  struct tw_error *err)
{
    const struct layer *layer = to->net->layer;
    const struct tw_matrix *const matrix[] = {&layer->a, &layer->b};
    const struct tw_layers all = {.count = LAYERS,
                                  .matrix = matrix,
                                  .matrices = 2,
                                  .ffn = &layer->ffn,
                                  .rows = rows,
                                  .row_elements = BATCHES * to->net->shape->d +
                                                  to->net->shape->m};
    enum tw_status status = TW_OK;
    for (int l = 0; l < LAYERS && status == TW_OK; l++, layer++) {
        status = CUDA.layer_load(to->ctx, &all, l, err);
        if (status == TW_OK)
            status = CUDA.weight_load(to->ctx, &layer->a, &to->a[l], err);
        if (status == TW_OK)
            status = CUDA.weight_load(to->ctx, &layer->b, &to->b[l], err);
        if (status == TW_OK)
            status = CUDA.ffn_load(to->ctx, &layer->ffn, &to->ffn[l], err);
    }
    return status;
}

/* Opens a context that has `memory` bytes for layers and batches; 0: all. */
static enum tw_status open(struct loaded *to, const struct net *net,
                           size_t memory, struct tw_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", memory);
    *to = (struct loaded){.net = net};
    struct tw_ops_config config = {.dtype = net->shape->type};
    enum tw_status status = CUDA.init(&config, &to->ctx, err);
    if (status == TW_OK)
        status = CUDA.weight_load(to->ctx, &net->embed, &to->embed, err);
    if (memory)
        setenv("TW_CUDA_MEMORY", text, 1);
    if (status == TW_OK)
        status = load_layers(to, ROWS, err);
    unsetenv("TW_CUDA_MEMORY");
    return status;
}

static void shut(struct loaded *l)
{
    for (int b = 0; b < BATCHES; b++)
        if (l->x[b])
            CUDA.free(l->ctx, l->x[b]);
    if (l->between)
        CUDA.free(l->ctx, l->between);
    if (l->normed)
        CUDA.free(l->ctx, l->normed);
    for (int i = 0; i < LAYERS; i++) {
        CUDA.weight_free(l->ctx, l->a[i]);
        CUDA.weight_free(l->ctx, l->b[i]);
        CUDA.ffn_free(l->ctx, l->ffn[i]);
    }
    CUDA.weight_free(l->ctx, l->embed);
    CUDA.fini(l->ctx);
}

static int resident(const struct loaded *l)
{
    const char *text = CUDA.weights(l->ctx);
    return text ? atoi(text) : ALL;
}

/* Memory with which so many layers are resident: the least but for STEP. What
 * is set aside for a batch is far more than one MiB, two layers far less. */
#define STEP ((size_t)16 << 10)
static size_t memory_for(const struct net *net, int layers)
{
    size_t least = (size_t)1 << 20, most = (size_t)1 << 26;
    if (layers == 0)
        return least;
    while (most - least > STEP) {
        struct tw_error err = {0};
        struct loaded l;
        size_t middle = least + (most - least) / 2;
        if (open(&l, net, middle, &err) == TW_OK && resident(&l) >= layers)
            most = middle;
        else
            least = middle;
        shut(&l);
    }
    return most;
}

/* What batches leave. */
struct result {
    struct fix_batch fix[BATCHES];
    struct tw_layer_obs obs[BATCHES][LAYERS];
    float *x[BATCHES];
};

static void result_init(struct result *r, const struct net *net)
{
    struct tw_error err = {0};
    *r = (struct result){0};
    fix_seed(9);
    for (int b = 0; b < BATCHES; b++) {
        fix_batch_init(&r->fix[b], lengths[b], VOCAB);
        for (int l = 0; l < LAYERS; l++)
            TW_OK_OR_FAIL(tw_layer_obs_init(&r->obs[b][l], r->fix[b].batch.rows,
                                            net->shape->f, 1, 1, 0, &err),
                          err);
    }
}

static void result_fini(struct result *r)
{
    for (int b = 0; b < BATCHES; b++) {
        for (int l = 0; l < LAYERS; l++)
            tw_layer_obs_fini(&r->obs[b][l]);
        fix_batch_fini(&r->fix[b]);
        tw_free(r->x[b]);
    }
}

static enum tw_status compute(struct loaded *w, int l, void *x,
                              struct tw_layer_obs *obs, struct tw_error *err)
{
    enum tw_status status =
        CUDA.matmul(w->ctx, w->between, x, w->a[l], NULL, NULL, err);
    if (status == TW_OK)
        status = CUDA.matmul(w->ctx, x, w->between, w->b[l], NULL, x, err);
    if (status == TW_OK)
        status = CUDA.norm(w->ctx, w->normed, x, w->net->shape->d, &norm, err);
    if (status == TW_OK)
        status =
            CUDA.ffn(w->ctx, x, w->normed, x, w->ffn[l], &probes, obs, err);
    return status;
}

/* Starts and submits batch b, its layers in that order, up to -1. */
static void submit(struct loaded *w, struct result *r, int b, const int *order)
{
    struct tw_error err = {0};
    int64_t rows = r->fix[b].batch.rows, d = w->net->shape->d;
    if (!w->between)
        TW_OK_OR_FAIL(
            CUDA.alloc(w->ctx, ROWS * w->net->shape->m, &w->between, &err),
            err);
    if (!w->normed)
        TW_OK_OR_FAIL(CUDA.alloc(w->ctx, ROWS * d, &w->normed, &err), err);
    if (!w->x[b])
        TW_OK_OR_FAIL(CUDA.alloc(w->ctx, rows * d, &w->x[b], &err), err);
    TW_OK_OR_FAIL(CUDA.start(w->ctx, &r->fix[b].batch, &err), err);
    TW_OK_OR_FAIL(CUDA.embed(w->ctx, w->x[b], w->embed, 1, &err), err);
    for (; *order >= 0; order++) {
        tw_layer_obs_reset(&r->obs[b][*order], rows);
        TW_OK_OR_FAIL(compute(w, *order, w->x[b], &r->obs[b][*order], &err),
                      err);
    }
    TW_OK_OR_FAIL(CUDA.submit(w->ctx, &err), err);
}

static void collect(struct loaded *w)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(CUDA.collect(w->ctx, &err), err);
}

static const int in_turn[] = {0, 1, 2, 3, 4, -1};

/* All batches, two in flight. */
static void run(struct loaded *w, struct result *r, const int *order)
{
    for (int b = 0; b < BATCHES; b++) {
        if (b >= 2)
            collect(w);
        submit(w, r, b, order);
    }
    collect(w);
    collect(w);
    for (int b = 0; b < BATCHES; b++) {
        struct tw_error err = {0};
        int64_t count = r->fix[b].batch.rows * w->net->shape->d;
        tw_free(r->x[b]);
        r->x[b] = fix_poison(count);
        TW_OK_OR_FAIL(CUDA.download(w->ctx, r->x[b], w->x[b], count, &err),
                      err);
    }
}

static void check_same(const struct result *a, const struct result *b,
                       const struct net *net)
{
    for (int i = 0; i < BATCHES; i++) {
        size_t rows = (size_t)a->fix[i].batch.rows, f = (size_t)net->shape->f;
        ck_assert_msg(memcmp(a->x[i], b->x[i],
                             rows * (size_t)net->shape->d * sizeof **a->x) == 0,
                      "batch %d: another output", i);
        for (int l = 0; l < LAYERS; l++) {
            const struct tw_layer_obs *p = &a->obs[i][l], *q = &b->obs[i][l];
            ck_assert_msg(
                memcmp(p->nnz, q->nnz, rows * sizeof *p->nnz) == 0 &&
                    memcmp(p->l1, q->l1, rows * sizeof *p->l1) == 0 &&
                    memcmp(p->fired, q->fired, f * sizeof *p->fired) == 0,
                "batch %d layer %d: other counts", i, l);
        }
    }
}

/* Runs the model that fits, for comparison. */
static void run_resident(const struct net *net, struct result *r,
                         const int *order)
{
    struct tw_error err = {0};
    struct loaded w;
    result_init(r, net);
    TW_OK_OR_FAIL(open(&w, net, 0, &err), err);
    ck_assert_ptr_null(CUDA.weights(w.ctx));
    run(&w, r, order);
    bool is_sparse = tw_activation_is_sparse(net->shape->activation.act);
    for (int l = 0; l < LAYERS && is_sparse && order == in_turn; l++) {
        ck_assert_uint_eq(r->obs[0][l].dense_rows, 0); /* all were gathered */
        ck_assert_uint_gt(r->obs[0][l].nnz[7], 0);
    }
    shut(&w);
}

START_TEST(streamed_layers_give_the_same_bits)
{
    static const int numbers[] = {0, 1, 2};
    struct net *net = net_make(&shapes[_i]);
    struct result want, got;
    run_resident(net, &want, in_turn);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct tw_error err = {0};
        struct loaded w;
        TW_OK_OR_FAIL(open(&w, net, memory_for(net, numbers[i]), &err), err);
        ck_assert_int_eq(resident(&w), numbers[i]);
        ck_assert_ptr_nonnull(strstr(CUDA.weights(w.ctx),
                                     " of 5 layers resident, the others "
                                     "streamed, "));
        result_init(&got, net);
        run(&w, &got, in_turn);
        check_same(&want, &got, net);
        result_fini(&got);
        shut(&w);
    }
    result_fini(&want);
    net_free(net);
}
END_TEST

/* The last place where all fit is one more layer than the ring saves. */
START_TEST(a_model_that_fits_is_not_streamed)
{
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[0]);
    size_t enough = memory_for(net, ALL);
    struct loaded w;
    TW_OK_OR_FAIL(open(&w, net, enough, &err), err);
    ck_assert_ptr_null(CUDA.weights(w.ctx));
    shut(&w);
    TW_OK_OR_FAIL(open(&w, net, enough - STEP, &err), err);
    ck_assert_int_eq(resident(&w), LAYERS - TWP_BLOCKS - 1);
    shut(&w);
    net_free(net);
}
END_TEST

START_TEST(layers_may_come_in_any_order)
{
    static const int orders[][8] = {
        {3, 1, 0, 4, 2, -1}, {0, 0, 2, 2, 0, -1}, {4, 3, 2, 1, 0, -1}};
    const int *order = orders[_i];
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[0]);
    struct result want, got;
    struct loaded w;
    run_resident(net, &want, order);
    TW_OK_OR_FAIL(open(&w, net, memory_for(net, 0), &err), err);
    result_init(&got, net);
    run(&w, &got, order);
    check_same(&want, &got, net);
    result_fini(&got);
    result_fini(&want);
    shut(&w);
    net_free(net);
}
END_TEST

/* A batch without memory ends in the middle of the model. */
START_TEST(after_a_batch_that_failed_the_next_is_right)
{
    static const int cut[] = {0, 1, 2, -1};
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[1]);
    struct result want, got;
    struct loaded w;
    run_resident(net, &want, in_turn);
    TW_OK_OR_FAIL(open(&w, net, memory_for(net, 0), &err), err);
    result_init(&got, net);
    submit(&w, &got, 0, cut);
    submit(&w, &got, 1, cut);
    collect(&w);
    collect(&w);
    CUDA.trim(w.ctx);
    run(&w, &got, in_turn);
    check_same(&want, &got, net);
    result_fini(&got);
    result_fini(&want);
    shut(&w);
    net_free(net);
}
END_TEST

/* A layer's columns of W_down are there whichever plan was in use before. */
START_TEST(plans_change_between_batches)
{
    const struct tw_ffn_plan plans[] = {{TW_FFN_DENSE, TW_NO_ROW_LIMIT},
                                        {TW_FFN_TWELL, 40}};
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[0]);
    struct result want, got;
    struct loaded both[2];
    result_init(&want, net);
    result_init(&got, net);
    TW_OK_OR_FAIL(open(&both[0], net, 0, &err), err);
    TW_OK_OR_FAIL(open(&both[1], net, memory_for(net, 1), &err), err);
    for (int p = 0; p < 2; p++) {
        for (int i = 0; i < 2; i++)
            for (int l = 0; l < LAYERS; l++)
                TW_OK_OR_FAIL(
                    CUDA.plan_use(both[i].ctx, both[i].ffn[l], &plans[p], &err),
                    err);
        run(&both[0], &want, in_turn);
        run(&both[1], &got, in_turn);
        check_same(&want, &got, net);
    }
    shut(&both[0]);
    shut(&both[1]);
    result_fini(&got);
    result_fini(&want);
    net_free(net);
}
END_TEST

START_TEST(too_little_memory_is_said)
{
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[0]);
    struct loaded w;
    TW_FAILS_WITH(open(&w, net, 1000, &err), TW_ERR_NOMEM,
                  "cuda: out of memory: of 5 layers 2 need ", err);
    ck_assert_ptr_nonnull(strstr(err.text, " are free"));
    shut(&w);
    const struct tw_layers far = {.count = INT64_C(1) << 36,
                                  .ffn = &net->layer[0].ffn};
    if (tw_memory_available() > 0) {
        void *ctx;
        TW_OK_OR_FAIL(CUDA.init(&(struct tw_ops_config){0}, &ctx, &err), err);
        TW_FAILS_WITH(CUDA.layer_load(ctx, &far, 0, &err), TW_ERR_NOMEM,
                      "of the host's memory; ", err);
        CUDA.fini(ctx);
    }
    net_free(net);
}
END_TEST

START_TEST(a_larger_layer_is_refused)
{
    struct tw_error err = {0};
    struct net *net = net_make(&shapes[0]);
    struct loaded w;
    size_t memory = memory_for(net, 0);
    net->layer[3].b.rows = 1 << 16; /* none of which is read */
    TW_FAILS_WITH(open(&w, net, memory, &err), TW_ERR_UNSUPPORTED,
                  "a layer is larger than the first", err);
    shut(&w);
    net->layer[3].b.rows = net->shape->d;
    net_free(net);
}
END_TEST

/* Whatever allocation fails, it is an error and nothing stays behind. */
START_TEST(allocations_may_fail)
{
    struct net *net = net_make(&shapes[1]);
    size_t memory = memory_for(net, 1);
    enum tw_status status = TW_ERR_NOMEM;
    for (int after = 0; status != TW_OK; after++) {
        struct tw_error err = {0};
        struct loaded w;
        tw_alloc_fail_after(after);
        status = open(&w, net, memory, &err);
        tw_alloc_fail_after(-1);
        ck_assert_msg(status == TW_OK || status == TW_ERR_NOMEM, "%s",
                      err.text);
        if (w.ctx)
            shut(&w);
        ck_assert_int_lt(after, 200);
    }
    net_free(net);
}
END_TEST

int main(void)
{
    struct tw_error err = {0};
    setenv("TW_EMU_ORDER", "2", 0); /* copies as early as they may be */
    if (tw_ops_cuda.probe(&err) != TW_OK) {
        printf("SKIP: %s\n", err.text);
        return 77;
    }
    Suite *suite = suite_create("cuda_layers");
    TCase *tc = tcase_create("streamed");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, streamed_layers_give_the_same_bits, 0, SHAPES);
    tcase_add_test(tc, a_model_that_fits_is_not_streamed);
    tcase_add_loop_test(tc, layers_may_come_in_any_order, 0, 3);
    tcase_add_test(tc, after_a_batch_that_failed_the_next_is_right);
    tcase_add_test(tc, plans_change_between_batches);
    suite_add_tcase(suite, tc);
    tc = tcase_create("errors");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, too_little_memory_is_said);
    tcase_add_test(tc, a_larger_layer_is_refused);
    tcase_add_test(tc, allocations_may_fail);
    suite_add_tcase(suite, tc);
    return tw_run_suite_here(suite);
}
