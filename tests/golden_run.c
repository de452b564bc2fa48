#include <config.h>

#include "golden_run.h"

#include <math.h>

#include "model/forward.h"
#include "tw_check.h"
#include "tw_files.h"

/* Absolute, on logits and losses: of a checkpoint in float32, and of others,
 * whose golden was computed from the same rounded weights. */
#define LIMIT_F32  2e-4
#define LIMIT_HALF 1e-3
#define L1_LIMIT   1e-4 /* relative, per row */

enum { MAX_LAYERS = 8, MAX_ROWS = 640, MAX_VOCAB = 1024, MAX_SEQS = 4 };

/* What we computed. */
struct result {
    struct tw_layer_obs obs[MAX_LAYERS];
    float nll[MAX_ROWS], logits[MAX_SEQS * MAX_VOCAB];
};

static const void *answer(const struct golden *golden, const char *name)
{
    const struct tw_tensor *tensor = tw_tensors_find(&golden->oracle, name);
    ck_assert_msg(tensor != NULL, "no %s", name);
    return tensor->data;
}

enum tw_status golden_open(const char *folder, const char *answers,
                           struct golden *golden, struct tw_error *err)
{
    struct tw_model_options options = {.threads = 1};
    enum tw_status status =
        tw_model_open(folder, &options, &golden->model, err);
    if (status != TW_OK)
        return status;
    TW_OK_OR_FAIL(tw_tensors_open_file(tw_in(answers, "oracle.safetensors"),
                                       &golden->oracle, err),
                  *err);
    const struct tw_tensor *ids = tw_tensors_find(&golden->oracle, "input_ids");
    ck_assert(ids && ids->dims == 2 && ids->dtype == TW_I32);
    golden->seqs = ids->shape[0];
    golden->length = ids->shape[1];
    golden->rows = ids->elements;
    ck_assert(golden->model->layers <= MAX_LAYERS && golden->seqs <= MAX_SEQS &&
              golden->rows <= MAX_ROWS && golden->model->vocab <= MAX_VOCAB);
    return TW_OK;
}

void golden_close(struct golden *golden)
{
    tw_tensors_close(&golden->oracle);
    tw_model_close(golden->model);
}

static void run(const struct golden *golden, const struct tw_ops *ops,
                struct result *result)
{
    static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                            .name = "hidden"};
    static const uint8_t classes[MAX_ROWS];
    static const int64_t starts[MAX_SEQS];
    const struct tw_probes probes = {.count = 1, .active = &hidden};
    int64_t offset[MAX_SEQS + 1], document[MAX_SEQS], last[MAX_SEQS];
    struct tw_error err = {0};
    struct tw_runner *runner;
    struct tw_runner_config config = {.ops = {.threads = 1}, .max_rows = 1};
    for (int64_t s = 0; s < golden->seqs; s++) {
        document[s] = s;
        offset[s] = s * golden->length;
        last[s] = offset[s] + golden->length - 1;
    }
    offset[golden->seqs] = golden->rows;
    struct tw_batch batch = {.rows = golden->rows,
                             .seqs = golden->seqs,
                             .offset = offset,
                             .document = document,
                             .start = starts,
                             .row_class = classes,
                             .token = answer(golden, "input_ids")};
    for (int64_t l = 0; l < golden->model->layers; l++)
        TW_OK_OR_FAIL(tw_layer_obs_init(&result->obs[l], batch.rows,
                                        golden->model->d_ff, 1, 1, 0, &err),
                      err);
    TW_OK_OR_FAIL(tw_runner_create(golden->model, ops, &config, &runner, &err),
                  err);
    struct tw_head_obs head = {.nll = result->nll};
    struct tw_logits wanted = {
        .rows = golden->seqs, .row = last, .logits = result->logits};
    TW_OK_OR_FAIL(tw_runner_batch(runner, &batch, &probes, result->obs, &head,
                                  &wanted, &err),
                  err);
    tw_runner_destroy(runner);
}

static void compare_loss(const struct golden *golden,
                         const struct result *result)
{
    int64_t length = golden->length;
    const float *expected = answer(golden, "nll");
    double limit =
        strcmp(golden->model->dtype, "float32") == 0 ? LIMIT_F32 : LIMIT_HALF;
    for (int64_t s = 0; s < golden->seqs; s++) {
        for (int64_t t = 0; t + 1 < length; t++)
            ck_assert_float_eq_tol(result->nll[s * length + t],
                                   expected[s * (length - 1) + t], limit);
        ck_assert(isnan(result->nll[s * length + length - 1]));
    }
    expected = answer(golden, "logits_last");
    for (int64_t i = 0; i < golden->seqs * golden->model->vocab; i++)
        ck_assert_float_eq_tol(result->logits[i], expected[i], limit);
}

/* A layer's counts; near NULL: none may differ. */
static void compare_layer(const struct golden *golden,
                          const struct tw_layer_obs *obs, int64_t layer,
                          const int32_t *near)
{
    int64_t rows = golden->rows, width = golden->model->d_ff, slack = 0;
    const int32_t *nnz = answer(golden, "nnz");
    const int32_t *fire = answer(golden, "fire");
    const float *l1 = answer(golden, "l1");
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = layer * rows + r, may = near ? near[at] : 0;
        slack += may;
        ck_assert_int_le(llabs((int64_t)obs->nnz[r] - nnz[at]), may);
        ck_assert_float_eq_tol(obs->l1[r] / l1[at], 1, L1_LIMIT);
    }
    for (int64_t n = 0; n < width; n++)
        ck_assert_int_le(
            llabs((int64_t)obs->fired[n] - fire[layer * width + n]), slack);
}

void golden_check(const struct golden *golden, const struct tw_ops *ops)
{
    static struct result result;
    const struct tw_tensor *near = tw_tensors_find(&golden->oracle, "near");
    run(golden, ops, &result);
    compare_loss(golden, &result);
    for (int64_t l = 0; l < golden->model->layers; l++) {
        compare_layer(golden, &result.obs[l], l, near ? near->data : NULL);
        tw_layer_obs_fini(&result.obs[l]);
    }
}
