/* Claim: every family computes what Hugging Face transformers does, on the
 * reference and the cpu row of the operations table, for every form of it that
 * tests/data/goldens holds; every tensor of a checkpoint is used, or known to
 * be one that nobody needs; and what a family does not do is refused by name.
 * scripts/make_goldens.py made the cases. */
#include <config.h>

#include <dirent.h>
#include <stdio.h>

#include "golden_make.h"
#include "golden_run.h"
#include "kernels/ops_ref.h"
#include "model/forward.h"
#include "tw_check.h"
#include "tw_files.h"

static struct dirent **found;
static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static const char *goldens(void)
{
    static char path[4096];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/data/goldens", top ? top : ".");
    return path;
}

START_TEST(family_is_met)
{
    char from[4400];
    struct tw_error err = {0};
    struct golden golden;
    size_t at = 0;
    const char *folder = tw_folder_make();
    snprintf(from, sizeof from, "%s/%s", goldens(), found[_i]->d_name);
    golden_make(from, folder);
    enum tw_status status = golden_open(folder, from, &golden, &err);
    tw_folder_remove(folder);
    ck_assert_msg(status == TW_OK, "%s: %s", found[_i]->d_name, err.text);
    ck_assert_ptr_eq(tw_model_unused(golden.model, &at), NULL);
    golden_check(&golden, &tw_ops_ref);
    golden_check(&golden, &tw_ops_cpu);
    golden_close(&golden);
}
END_TEST

/* What a family does not do is refused by name. The fields are merged into the
 * case's config.json. */
static const struct {
    const char *name, *fields, *words;
} refusals[] = {
    {"bloom", "{'apply_residual_connection_post_layernorm': true}",
     "apply_residual_connection_post_layernorm true is not supported"},
    {"gpt2", "{'add_cross_attention': true}",
     "add_cross_attention true is not supported"},
    {"gptj", "{'rotary_dim': null}", "rotary_dim null is not supported"},
    {"gptj", "{'rotary_dim': 10}", "10 rotary dimensions of a head_dim of 8"},
    {"falcon_40b", "{'num_ln_in_parallel_attn': 3}",
     "num_ln_in_parallel_attn 3 is not supported"},
    {"falcon_7b", "{'num_ln_in_parallel_attn': 2}",
     "num_ln_in_parallel_attn 2 is not supported"},
    {"falcon_40b", "{'parallel_attn': false}",
     "parallel_attn false with new_decoder_architecture is not supported"},
    {"gpt_neox", "{'rope_parameters': {'rope_type': 'spiral'}}", "'spiral'"},
    {"phi", "{'hidden_act': 'swoosh'}", "swoosh"},
    {"opt", "{'activation_function': 7}", "activation_function"},
    {"nemotron", "{'norm_eps': -1}", "norm_eps -1 is not between 0 and 1"},
    {"phi", "{'num_attention_heads': 1073741824}", "no tensor is that large"},
};

START_TEST(what_is_not_done_is_named)
{
    char from[4400], fields[200];
    struct tw_error err = {0};
    struct golden golden;
    const char *folder = tw_folder_make();
    snprintf(from, sizeof from, "%s/%s", goldens(), refusals[_i].name);
    snprintf(fields, sizeof fields, "%s", refusals[_i].fields);
    for (char *at = fields; (at = strchr(at, '\'')); at++)
        *at = '"';
    json_t *config = golden_read(from, "config.json");
    json_t *list = golden_read(from, "tensors.json");
    json_t *change = json_loads(fields, 0, NULL);
    ck_assert_int_eq(json_object_update(config, change), 0);
    golden_config(config, folder);
    golden_weights(list, folder);
    enum tw_status status = golden_open(folder, from, &golden, &err);
    tw_folder_remove(folder);
    ck_assert_int_ne(status, TW_OK);
    ck_assert_msg(strstr(err.text, refusals[_i].words) != NULL,
                  "'%s' lacks '%s'", err.text, refusals[_i].words);
    json_decref(change);
    json_decref(list);
    json_decref(config);
}
END_TEST

/* 66 rows of embed_positions, 64 of wpe: 64 positions each. */
START_TEST(learned_positions_end)
{
    static const char *const names[] = {"opt", "gpt2"};
    static const int32_t token[65];
    static const uint8_t classes[65];
    static const int64_t offset[] = {0, 65}, zero[1];
    const struct tw_batch batch = {.rows = 65,
                                   .seqs = 1,
                                   .offset = offset,
                                   .document = zero,
                                   .start = zero,
                                   .token = token,
                                   .row_class = classes};
    const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                     .name = "hidden"};
    const struct tw_probes probes = {.count = 1, .active = &hidden};
    struct tw_runner_config config = {.ops = {.threads = 1}, .max_rows = 65};
    struct tw_layer_obs obs[2];
    struct tw_runner *runner;
    struct tw_error err = {0};
    struct golden golden;
    char from[4400];
    const char *folder = tw_folder_make();
    snprintf(from, sizeof from, "%s/%s", goldens(), names[_i]);
    golden_make(from, folder);
    TW_OK_OR_FAIL(golden_open(folder, from, &golden, &err), err);
    tw_folder_remove(folder);
    ck_assert_int_eq(golden.model->position_limit, 64);
    for (int l = 0; l < 2; l++)
        TW_OK_OR_FAIL(
            tw_layer_obs_init(&obs[l], 65, golden.model->d_ff, 1, 1, 0, &err),
            err);
    TW_OK_OR_FAIL(
        tw_runner_create(golden.model, &tw_ops_cpu, &config, &runner, &err),
        err);
    TW_FAILS_WITH(
        tw_runner_batch(runner, &batch, &probes, obs, NULL, NULL, &err),
        TW_ERR_MISMATCH, "position", err);
    tw_runner_destroy(runner);
    for (int l = 0; l < 2; l++)
        tw_layer_obs_fini(&obs[l]);
    golden_close(&golden);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("families");
    TCase *core = tcase_create("core");
    int cases = scandir(goldens(), &found, is_case, alphasort);
    if (cases <= 0) {
        fprintf(stderr, "no cases in %s\n", goldens());
        return EXIT_FAILURE;
    }
    tcase_set_timeout(core, 60);
    tcase_add_loop_test(core, family_is_met, 0, cases);
    tcase_add_loop_test(core, what_is_not_done_is_named, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(core, learned_positions_end, 0, 2);
    suite_add_tcase(suite, core);
    int result = tw_run_suite(suite);
    for (int i = 0; i < cases; i++)
        free(found[i]);
    free(found);
    return result;
}
