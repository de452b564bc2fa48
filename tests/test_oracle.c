/* Claim: the families and the forward pass compute what Hugging Face does, on
 * the reference and the cpu row of the operations table and the goldens' stored
 * answers.
 *
 * The bfloat16 goldens were computed by a model that had been cast as a whole,
 * so their rotary frequencies were rounded to bfloat16 too; a model that is
 * loaded keeps them in float32, as ours does. For those rows alone the test
 * rounds the frequencies; without it losses differ by up to 0.003. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/ops_ref.h"
#include "model/forward.h"
#include "tw_check.h"

#define NLL_LIMIT 1e-4    /* absolute, per token */
#define LOGIT_LIMIT 1e-3  /* absolute */
#define L1_LIMIT 1e-4     /* relative, per row */

static const struct {
    const char *name;
    bool has_rounded_rope;
} goldens[] = {
    {"llama_silu", false},
    {"llama_relu_tied", true},
    {"llama_sparse_plain", true},
};

enum { MAX_LAYERS = 8, MAX_ROWS = 256, MAX_VOCAB = 1024, MAX_SEQS = 4 };

/* One golden: model, answers, what we computed. */
static struct tw_model *model;
static struct tw_tensors oracle;
static struct tw_layer_obs obs[MAX_LAYERS];
static float nll[MAX_ROWS], logits[MAX_SEQS * MAX_VOCAB];

static const void *answer(const char *name)
{
    const struct tw_tensor *tensor = tw_tensors_find(&oracle, name);
    ck_assert_msg(tensor != NULL, "no %s", name);
    return tensor->data;
}

static bool open_golden(const char *name, bool has_rounded_rope)
{
    const char *root = getenv("TW_SHARED");
    char place[4096], path[4200];
    struct tw_error err = {0};
    struct tw_model_options options = {.threads = 1};
    snprintf(place, sizeof place, "%s/goldens/%s", root ? root : "", name);
    snprintf(path, sizeof path, "%s/oracle.safetensors", place);
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "skipped: no goldens/%s in TW_SHARED\n", name);
        return false;
    }
    TW_OK_OR_FAIL(tw_model_open(place, &options, &model, &err), err);
    TW_OK_OR_FAIL(tw_tensors_open_file(path, &oracle, &err), err);
    for (int64_t i = 0; has_rounded_rope && i < model->rope.dims / 2; i++) {
        uint32_t bits;
        memcpy(&bits, &model->inv_freq[i], sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1); /* to nearest, ties to even */
        model->inv_freq[i] = tw_bf16_to_f32((uint16_t)(bits >> 16));
    }
    return true;
}

static void run_golden(const struct tw_ops *ops, int64_t seqs, int64_t length)
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
    ck_assert(model->layers <= MAX_LAYERS && seqs <= MAX_SEQS &&
              seqs * length <= MAX_ROWS && model->vocab <= MAX_VOCAB);
    for (int64_t s = 0; s < seqs; s++) {
        document[s] = s;
        offset[s] = s * length;
        last[s] = offset[s] + length - 1;
    }
    offset[seqs] = seqs * length;
    struct tw_batch batch = {.rows = seqs * length, .seqs = seqs,
                             .offset = offset, .document = document,
                             .start = starts, .token = answer("input_ids"),
                             .row_class = classes};
    for (int64_t l = 0; l < model->layers; l++)
        TW_OK_OR_FAIL(tw_layer_obs_init(&obs[l], batch.rows, model->d_ff, 1, 1,
                                        0, &err), err);
    TW_OK_OR_FAIL(
        tw_runner_create(model, ops, &config, &runner, &err), err);
    struct tw_head_obs head = {.nll = nll};
    struct tw_logits wanted = {.rows = seqs, .row = last, .logits = logits};
    TW_OK_OR_FAIL(tw_runner_batch(runner, &batch, &probes, obs, &head, &wanted,
                                  &err), err);
    tw_runner_destroy(runner);
}

static void compare_loss(int64_t seqs, int64_t length)
{
    const float *expected = answer("nll");
    for (int64_t s = 0; s < seqs; s++) {
        for (int64_t t = 0; t + 1 < length; t++)
            ck_assert_float_eq_tol(nll[s * length + t],
                                   expected[s * (length - 1) + t], NLL_LIMIT);
        ck_assert(isnan(nll[s * length + length - 1]));
    }
    expected = answer("logits_last");
    for (int64_t i = 0; i < seqs * model->vocab; i++)
        ck_assert_float_eq_tol(logits[i], expected[i], LOGIT_LIMIT);
}

static void compare_counts(int64_t rows)
{
    const int32_t *nnz = answer("nnz"), *fire = answer("fire");
    const float *l1 = answer("l1");
    for (int64_t l = 0; l < model->layers; l++) {
        for (int64_t r = 0; r < rows; r++) {
            ck_assert_int_eq(obs[l].nnz[r], nnz[l * rows + r]);
            ck_assert_float_eq_tol(obs[l].l1[r] / l1[l * rows + r], 1,
                                   L1_LIMIT);
        }
        for (int64_t n = 0; n < model->d_ff; n++)
            ck_assert_int_eq(obs[l].fired[n], fire[l * model->d_ff + n]);
    }
}

START_TEST(goldens_are_met)
{
    const struct tw_ops *ops = _i % 2 ? &tw_ops_cpu : &tw_ops_ref;
    if (!open_golden(goldens[_i / 2].name, goldens[_i / 2].has_rounded_rope))
        return;
    const struct tw_tensor *ids = tw_tensors_find(&oracle, "input_ids");
    ck_assert(ids && ids->dims == 2 && ids->dtype == TW_I32);
    run_golden(ops, ids->shape[0], ids->shape[1]);
    compare_loss(ids->shape[0], ids->shape[1]);
    compare_counts(ids->elements);
    for (int64_t l = 0; l < model->layers; l++)
        tw_layer_obs_fini(&obs[l]);
    tw_tensors_close(&oracle);
    tw_model_close(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oracle");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, goldens_are_met, 0,
                        2 * sizeof goldens / sizeof *goldens);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
