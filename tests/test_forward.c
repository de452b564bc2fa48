/* Claims about the forward pass, on a backend that only writes down what it is
 * asked: the order of operations, the residuals, which weights are loaded, how
 * buffers grow, and what each kind of failure becomes. */
#include <config.h>

#include <math.h>

#include "base/memory.h"
#include "base/strbuf.h"
#include "model/forward.h"
#include "tw_check.h"
#include "tw_files.h"
#include "tw_llama.h"

/* The backend's record. */
static struct tw_strbuf calls;
static int live;              /* allocations and weights not freed yet */
static const char *failing;   /* the slot that fails */
static int64_t largest;       /* elements of the last allocation */
static int bad_layer;         /* whose obs gets a non-finite h; -1: none */
static int ffns;              /* ffn calls of the batch */
static const void *x_buffer;

static enum tw_status note(const char *slot, struct tw_error *err)
{
    tw_strbuf_printf(&calls, "%s ", slot);
    if (failing && strcmp(failing, slot) == 0)
        return tw_error_set(err, TW_ERR_IO, "%s failed", slot);
    return TW_OK;
}

static enum tw_status fake_init(const struct tw_ops_config *config, void **ctx,
                                struct tw_error *err)
{
    (void)config;
    *ctx = &live;
    return note("init", err);
}

static void fake_fini(void *ctx)
{
    (void)ctx;
    note("fini", NULL);
}

static const char *fake_device(void *ctx)
{
    (void)ctx;
    return "fake: 1 pen";
}

static enum tw_status fake_alloc(void *ctx, int64_t elements, void **buffer,
                                 struct tw_error *err)
{
    (void)ctx;
    largest = elements;
    enum tw_status status = note("alloc", err);
    if (status == TW_OK) {
        *buffer = tw_calloc((size_t)elements, sizeof(float));
        live++;
    }
    return status;
}

static void fake_free(void *ctx, void *buffer)
{
    (void)ctx;
    tw_free(buffer);
    live--;
}

static enum tw_status fake_weight_load(void *ctx,
                                       const struct tw_matrix *matrix,
                                       struct tw_weight **weight,
                                       struct tw_error *err)
{
    (void)ctx;
    ck_assert_ptr_nonnull(matrix->data);
    enum tw_status status = note("weight", err);
    if (status == TW_OK) {
        *weight = tw_alloc(1, 1);
        live++;
    }
    return status;
}

static void fake_weight_free(void *ctx, struct tw_weight *weight)
{
    (void)ctx;
    tw_free(weight);
    live--;
}

static enum tw_status fake_ffn_load(void *ctx, const struct tw_ffn_desc *desc,
                                    struct tw_ffn **ffn, struct tw_error *err)
{
    (void)ctx;
    ck_assert(desc->d_model == TINY_D && desc->d_ff == TINY_F);
    enum tw_status status = note("ffn_load", err);
    if (status == TW_OK) {
        *ffn = tw_alloc(1, 1);
        live++;
    }
    return status;
}

static void fake_ffn_free(void *ctx, struct tw_ffn *ffn)
{
    (void)ctx;
    tw_free(ffn);
    live--;
}

static enum tw_status fake_start(void *ctx, const struct tw_batch *batch,
                                 struct tw_error *err)
{
    (void)ctx;
    (void)batch;
    ffns = 0;
    return note("start", err);
}

static enum tw_status fake_finish(void *ctx, struct tw_error *err)
{
    (void)ctx;
    return note("finish", err);
}

static void fake_layer_end(void *ctx)
{
    (void)ctx;
    note("end", NULL);
}

static enum tw_status fake_embed(void *ctx, void *y, const struct tw_weight *w,
                                 float scale, struct tw_error *err)
{
    (void)ctx;
    (void)w;
    x_buffer = y;
    ck_assert(scale == 1);
    return note("embed", err);
}

static enum tw_status fake_norm(void *ctx, void *y, const void *x,
                                int64_t width, const struct tw_norm *norm,
                                struct tw_error *err)
{
    (void)ctx;
    ck_assert(x == x_buffer && y != x && width == TINY_D);
    ck_assert(norm->kind == TW_NORM_RMS && norm->eps == 1e-5f);
    ck_assert(norm->weight.cols == TINY_D);
    return note("norm", err);
}

static enum tw_status fake_matmul(void *ctx, void *y, const void *x,
                                  const struct tw_weight *w,
                                  const struct tw_matrix *bias,
                                  const void *residual, struct tw_error *err)
{
    (void)ctx;
    (void)w;
    ck_assert(x != y && !bias->data);
    ck_assert(!residual || (residual == x_buffer && y == x_buffer));
    return note(residual ? "matmul+x" : "matmul", err);
}

static enum tw_status fake_rope(void *ctx, void *x, int64_t heads,
                                int64_t head_dim, const struct tw_rope *rope,
                                struct tw_error *err)
{
    (void)ctx;
    (void)x;
    ck_assert(head_dim == TINY_HEAD_DIM && rope->dims == TINY_HEAD_DIM);
    return note(heads == TINY_HEADS ? "rope-q" : "rope-k", err);
}

static enum tw_status fake_attention(void *ctx, void *y, const void *q,
                                     const void *k, const void *v,
                                     const struct tw_attention *attention,
                                     struct tw_error *err)
{
    (void)ctx;
    ck_assert(y != q && q != k && k != v);
    ck_assert(attention->scale == 0.5f);
    return note("attention", err);
}

static enum tw_status fake_ffn(void *ctx, void *y, const void *x,
                               const void *residual, struct tw_ffn *ffn,
                               const struct tw_probes *probes,
                               struct tw_layer_obs *obs, struct tw_error *err)
{
    (void)ctx;
    (void)ffn;
    ck_assert(y == x_buffer && residual == x_buffer && x != y);
    ck_assert((probes == NULL) == (obs == NULL));
    ck_assert(!obs || (probes->count == 1 && obs->bad_row == -1));
    if (ffns++ == bad_layer && obs) {
        obs->bad_row = 3;
        obs->bad_neuron = 7;
    }
    return note("ffn", err);
}

static enum tw_status fake_head_nll(void *ctx, const void *x,
                                    const struct tw_weight *w,
                                    const struct tw_head *head,
                                    struct tw_head_obs *obs,
                                    struct tw_error *err)
{
    (void)ctx;
    (void)w;
    ck_assert(x != x_buffer && head->scale == 1);
    tw_strbuf_printf(&calls, "rows:%d nll:%d ", (int)head->logit_rows,
                     obs->nll != NULL);
    return note("head", err);
}

/* Marks say what stands before them; a mark's time is its place. */
static int mark_place[64], mark_count;

static enum tw_status fake_mark(void *ctx, int index, struct tw_error *err)
{
    (void)ctx;
    ck_assert_int_lt(index, 64);
    mark_place[index] = mark_count++;
    return note("mark", err);
}

static enum tw_status fake_mark_ns(void *ctx, int from, int to, double *ns,
                                   struct tw_error *err)
{
    (void)ctx, (void)err;
    *ns = mark_place[to] - mark_place[from];
    return TW_OK;
}

static const struct tw_ops fake = {
    .name = "fake",
    .init = fake_init,
    .fini = fake_fini,
    .device = fake_device,
    .alloc = fake_alloc,
    .free = fake_free,
    .weight_load = fake_weight_load,
    .weight_free = fake_weight_free,
    .ffn_load = fake_ffn_load,
    .ffn_free = fake_ffn_free,
    .start = fake_start,
    .finish = fake_finish,
    .mark = fake_mark,
    .mark_ns = fake_mark_ns,
    .layer_end = fake_layer_end,
    .embed = fake_embed,
    .norm = fake_norm,
    .matmul = fake_matmul,
    .rope = fake_rope,
    .attention = fake_attention,
    .ffn = fake_ffn,
    .head_nll = fake_head_nll,
};

/* Two sequences of one document: rows 0-2, and its rows 10 and 11. */
static const int64_t offsets[] = {0, 3, 5}, documents[] = {4, 4},
                     starts[] = {0, 10};
static int32_t tokens[] = {1, 2, 3, 9, 5};
static const uint8_t classes[5];
static const struct tw_batch batch = {.rows = 5,
                                      .seqs = 2,
                                      .offset = offsets,
                                      .document = documents,
                                      .start = starts,
                                      .token = tokens,
                                      .row_class = classes};
static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                        .name = "hidden"};
static const struct tw_probes probes = {.count = 1, .active = &hidden};

static const char *folder;
static struct tw_model *model;
static struct tw_layer_obs obs[TINY_LAYERS];
static float nll[5];

static void setup(void)
{
    struct tw_error err = {0};
    struct tw_model_options options = {.threads = 1};
    folder = tw_folder_make();
    tiny_write(folder, &(struct tiny_edit){0});
    TW_OK_OR_FAIL(tw_model_open(folder, &options, &model, &err), err);
    for (int l = 0; l < TINY_LAYERS; l++)
        TW_OK_OR_FAIL(tw_layer_obs_init(&obs[l], 5, TINY_F, 1, 1, 0, &err),
                      err);
    tw_strbuf_clear(&calls);
    failing = NULL;
    bad_layer = -1;
    live = 0;
}

static void teardown(void)
{
    for (int l = 0; l < TINY_LAYERS; l++)
        tw_layer_obs_fini(&obs[l]);
    tw_model_close(model);
    tw_strbuf_fini(&calls);
    tw_folder_remove(folder);
    ck_assert_int_eq(live, 0);
}

static struct tw_runner *create(void)
{
    struct tw_error err = {0};
    struct tw_runner *runner = NULL;
    struct tw_runner_config config = {.max_rows = 3};
    TW_OK_OR_FAIL(tw_runner_create(model, &fake, &config, &runner, &err), err);
    return runner;
}

#define LAYER                                                           \
    "norm matmul rope-q matmul rope-k matmul attention matmul+x norm "         \
    "ffn end "

START_TEST(operations_come_in_order)
{
    struct tw_error err = {0};
    struct tw_head_obs head = {.nll = nll};
    struct tw_runner *runner = create();
    ck_assert_str_eq(tw_strbuf_text(&calls),
                     "init weight weight "
                     "weight weight weight weight ffn_load "
                     "weight weight weight weight ffn_load "
                     "alloc alloc alloc alloc alloc alloc ");
    ck_assert_int_eq(largest, 3 * TINY_HEADS * TINY_HEAD_DIM);
    ck_assert_str_eq(tw_runner_device(runner), "fake: 1 pen");
    tw_strbuf_clear(&calls);
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err), err);
    ck_assert_str_eq(
        tw_strbuf_text(&calls),
        "alloc alloc alloc alloc alloc alloc start embed " LAYER LAYER
        "norm rows:0 nll:1 head finish ");
    ck_assert_int_eq(largest, 5 * TINY_HEADS * TINY_HEAD_DIM);
    tw_runner_destroy(runner);
}
END_TEST

/* Of each layer: before it, before and after ffn, after it. */
#define TIMED_LAYER                                                            \
    "mark norm matmul rope-q matmul rope-k matmul attention matmul+x norm "    \
    "mark ffn mark end mark "

START_TEST(marks_stand_around_each_layer)
{
    struct tw_error err = {0};
    struct tw_runner *runner = create();
    struct tw_layer_ns times[TINY_LAYERS];
    struct tw_head_obs head = {.nll = nll};
    double total = 0;
    mark_count = 0;
    TW_OK_OR_FAIL(tw_runner_timing(runner, true, &err), err);
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err), err);
    ck_assert_ptr_nonnull(
        strstr(tw_strbuf_text(&calls), "mark embed " TIMED_LAYER TIMED_LAYER));
    TW_OK_OR_FAIL(tw_runner_times(runner, times, &total, &err), err);
    ck_assert(times[0].ffn == 1 && times[1].layer == 3 &&
              total == 4 * TINY_LAYERS + 1);
    TW_OK_OR_FAIL(tw_runner_timing(runner, false, &err), err);
    tw_strbuf_clear(&calls);
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err), err);
    ck_assert_ptr_null(strstr(tw_strbuf_text(&calls), "mark"));
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(without_obs_nothing_is_counted)
{
    struct tw_error err = {0};
    struct tw_runner *runner = create();
    bad_layer = 0;
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, NULL, NULL, NULL, NULL, &err), err);
    ck_assert_int_eq(ffns, TINY_LAYERS);
    ck_assert_ptr_eq(tw_runner_context(runner), &live);
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(timing_without_marks_is_refused)
{
    struct tw_ops without = fake;
    struct tw_error err = {0};
    struct tw_runner *runner = NULL;
    struct tw_runner_config config = {.max_rows = 3};
    without.mark = NULL;
    TW_OK_OR_FAIL(tw_runner_create(model, &without, &config, &runner, &err),
                  err);
    ck_assert_int_eq(tw_runner_timing(runner, true, &err), TW_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "backend 'fake' cannot do mark");
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(the_head_runs_only_for_loss_or_logits)
{
    struct tw_error err = {0};
    int64_t row = 4;
    float logits[TINY_V];
    struct tw_logits wanted = {.rows = 1, .row = &row, .logits = logits};
    struct tw_head_obs none = {.nll = NULL};
    struct tw_runner *runner = create();
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, &none, NULL, &err), err);
    ck_assert_ptr_null(strstr(tw_strbuf_text(&calls), "head"));
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, NULL, &wanted, &err),
        err);
    ck_assert_ptr_nonnull(strstr(tw_strbuf_text(&calls), "rows:1 nll:0 head"));
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(a_tied_head_is_loaded_once)
{
    struct tw_error err = {0};
    struct tw_model *tied = NULL;
    struct tw_model_options options = {.threads = 1};
    struct tw_runner *runner = NULL;
    struct tw_runner_config config = {.max_rows = 3};
    tiny_write(folder, &(struct tiny_edit){.from = "embeddings\": false",
                                           .to = "embeddings\": true"});
    TW_OK_OR_FAIL(tw_model_open(folder, &options, &tied, &err), err);
    TW_OK_OR_FAIL(tw_runner_create(tied, &fake, &config, &runner, &err), err);
    ck_assert_int_eq(live, 6 + TINY_LAYERS * 5 + 1);
    tw_runner_destroy(runner);
    tw_model_close(tied);
}
END_TEST

START_TEST(a_value_that_is_not_finite_is_named)
{
    struct tw_error err = {0};
    struct tw_runner *runner = create();
    bad_layer = 1;
    TW_FAILS_WITH(
        tw_runner_batch(runner, &batch, &probes, obs, NULL, NULL, &err),
        TW_ERR_NUMERIC,
        "layer 1, token 9 (row 10 of document 4), neuron 7: h is not a "
        "finite number",
        err);
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(tokens_outside_the_vocabulary_are_refused)
{
    struct tw_error err = {0};
    struct tw_runner *runner = create();
    static const int32_t outside[] = {-1, TINY_V, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        tokens[2] = outside[i];
        TW_FAILS_WITH(
            tw_runner_batch(runner, &batch, &probes, obs, NULL, NULL, &err),
            TW_ERR_MISMATCH, "vocabulary of 10", err);
    }
    tokens[2] = 3;
    ck_assert_ptr_null(strstr(tw_strbuf_text(&calls), "start"));
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(a_missing_slot_is_named)
{
    struct tw_error err = {0};
    struct tw_runner *runner;
    struct tw_runner_config config = {.max_rows = 1};
    struct tw_ops without = fake;
    without.rope = NULL;
    TW_FAILS_WITH(tw_runner_create(model, &without, &config, &runner, &err),
                  TW_ERR_UNSUPPORTED, "backend 'fake' cannot do rope", err);
}
END_TEST

START_TEST(a_sequence_past_the_limit_is_refused)
{
    struct tw_error err = {0};
    struct tw_runner *runner = create();
    model->position_limit = 3;
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, NULL, NULL, &err), err);
    model->position_limit = 2;
    snprintf(model->limit_reason, sizeof model->limit_reason, "a reason");
    TW_FAILS_WITH(
        tw_runner_batch(runner, &batch, &probes, obs, NULL, NULL, &err),
        TW_ERR_MISMATCH,
        "a sequence of 3 tokens is past the model's 2 positions: a reason",
        err);
    tw_runner_destroy(runner);
}
END_TEST

START_TEST(what_only_some_models_need_is_asked_for_by_those)
{
    struct tw_error err = {0};
    struct tw_runner *runner = NULL;
    struct tw_runner_config config = {.max_rows = 3};
    model->layer[TINY_LAYERS - 1].residual_scale = 0.5f;
    TW_FAILS_WITH(tw_runner_create(model, &fake, &config, &runner, &err),
                  TW_ERR_UNSUPPORTED, "backend 'fake' cannot do add", err);
    err = (struct tw_error){0};
    model->positions = model->embed;
    TW_FAILS_WITH(tw_runner_create(model, &fake, &config, &runner, &err),
                  TW_ERR_UNSUPPORTED, "backend 'fake' cannot do positions",
                  err);
}
END_TEST

static const char *const loading[] = {"init", "weight", "ffn_load", "alloc"};

START_TEST(a_failed_start_frees_everything)
{
    struct tw_error err = {0};
    struct tw_runner *runner;
    struct tw_runner_config config = {.max_rows = 1};
    failing = loading[_i];
    TW_FAILS_WITH(tw_runner_create(model, &fake, &config, &runner, &err),
                  TW_ERR_IO, failing, err);
    ck_assert_int_eq(live, 0);
}
END_TEST

static const char *const running[] = {"embed",  "norm",      "matmul",
                                      "rope-k", "attention", "matmul+x",
                                      "ffn",    "head",      "finish"};

START_TEST(a_failed_batch_is_finished)
{
    struct tw_error err = {0};
    struct tw_head_obs head = {.nll = nll};
    struct tw_runner *runner = create();
    failing = running[_i];
    TW_FAILS_WITH(
        tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err),
        TW_ERR_IO, failing, err);
    const char *text = tw_strbuf_text(&calls);
    ck_assert_str_eq(text + strlen(text) - strlen("finish "), "finish ");
    failing = NULL;
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(
        tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err), err);
    tw_runner_destroy(runner);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forward");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_test(core, operations_come_in_order);
    tcase_add_test(core, marks_stand_around_each_layer);
    tcase_add_test(core, without_obs_nothing_is_counted);
    tcase_add_test(core, timing_without_marks_is_refused);
    tcase_add_test(core, the_head_runs_only_for_loss_or_logits);
    tcase_add_test(core, a_tied_head_is_loaded_once);
    tcase_add_test(core, a_value_that_is_not_finite_is_named);
    tcase_add_test(core, tokens_outside_the_vocabulary_are_refused);
    tcase_add_test(core, a_sequence_past_the_limit_is_refused);
    tcase_add_test(core, what_only_some_models_need_is_asked_for_by_those);
    tcase_add_test(core, a_missing_slot_is_named);
    tcase_add_loop_test(core, a_failed_start_frees_everything, 0, 4);
    tcase_add_loop_test(core, a_failed_batch_is_finished, 0, 9);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
