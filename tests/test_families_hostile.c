/* Claim: whatever config.json says and whatever shape a tensor has, opening a
 * checkpoint of any family either fails with one line or gives a model that
 * runs; a tensor of another shape is named. */
#include <config.h>

#include <stdio.h>
#include <sys/stat.h>

#include "golden_make.h"
#include "model/forward.h"
#include "tw_check.h"
#include "tw_files.h"

/* One form of each family; the sharded and wrapped ones are among them. */
static const char *const cases[] = {
    "arcee_bias",
    "bamboo_window",
    "bloom",
    "cohere_norm",
    "falcon_40b",
    "falcon_rw",
    "gemma",
    "gemma2",
    "gemma3_linear",
    "gemma3_wrapped",
    "gpt2_legacy",
    "gpt_neox_old",
    "gptj_relu",
    "granite",
    "llama_llama3",
    "llama_yarn_beta",
    "llama_sparse_plain",
    "minicpm_s",
    "mistral",
    "nemotron_old",
    "olmo2",
    "persimmon",
    "opt_350m",
    "phi_norm",
    "phi3_longrope",
    "qwen2_window",
    "qwen2_sparse_gated",
    "qwen3",
    "smollm3",
    "stablelm_parallel",
};
enum { CASES = sizeof cases / sizeof *cases };

/* What a field is set to; "" takes it away. */
static const char *const values[] = {
    "",           "null", "true", "-1",    "0",     "1",
    "3",          "7",    "1e30", "0.5",   "\"x\"", "2147483647",
    "1073741824", "[]",   "[-1]", "[0,1]", "{}",
};
enum { VALUES = sizeof values / sizeof *values };

static char from[4400];
static const char *folder;

static void enter(int number)
{
    const char *top = getenv("top_srcdir");
    snprintf(from, sizeof from, "%s/tests/data/goldens/%s", top ? top : ".",
             cases[number]);
    folder = tw_folder_make();
}

/* A pass over five tokens. */
static void run(const struct tw_model *model, const char *what)
{
    static const int32_t token[] = {0, 1, 2, 0, 1};
    static const uint8_t classes[5];
    static const int64_t offset[] = {0, 3, 5}, document[] = {0, 1},
                         start[] = {0, 0};
    const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                     .name = "hidden"};
    const struct tw_probes probes = {.count = 1, .active = &hidden};
    const struct tw_batch batch = {.rows = 5,
                                   .seqs = 2,
                                   .offset = offset,
                                   .document = document,
                                   .start = start,
                                   .token = token,
                                   .row_class = classes};
    struct tw_runner_config config = {.ops = {.threads = 1}, .max_rows = 5};
    struct tw_runner *runner = NULL;
    struct tw_error err = {0};
    float nll[5];
    struct tw_head_obs head = {.nll = nll};
    struct tw_layer_obs *obs = calloc((size_t)model->layers, sizeof *obs);
    ck_assert_ptr_nonnull(obs);
    for (int64_t l = 0; l < model->layers; l++)
        TW_OK_OR_FAIL(
            tw_layer_obs_init(&obs[l], batch.rows, model->d_ff, 1, 1, 0, &err),
            err);
    enum tw_status status =
        tw_runner_create(model, &tw_ops_cpu, &config, &runner, &err);
    if (status == TW_OK)
        status =
            tw_runner_batch(runner, &batch, &probes, obs, &head, NULL, &err);
    /* numbers may overflow, sequences be too long: only that */
    ck_assert_msg(status == TW_OK || status == TW_ERR_NUMERIC ||
                      status == TW_ERR_MISMATCH,
                  "%s: %s", what, err.text);
    tw_runner_destroy(runner);
    for (int64_t l = 0; l < model->layers; l++)
        tw_layer_obs_fini(&obs[l]);
    free(obs);
}

/* Opens what is in the folder. True if it could. */
static bool try(const char *what, char *text, size_t size)
{
    const struct tw_model_options options = {.threads = 1};
    struct tw_error err = {0};
    struct tw_model *model = NULL;
    enum tw_status status = tw_model_open(folder, &options, &model, &err);
    snprintf(text, size, "%s", err.text);
    if (status == TW_OK) {
        run(model, what);
        tw_model_close(model);
        return true;
    }
    ck_assert_msg(err.text[0] && !strchr(err.text, '\n'), "%s: '%s'", what,
                  err.text);
    return false;
}

static void try_values(json_t *config, json_t *object, const char *field)
{
    char what[200], text[1024];
    json_t *was = json_incref(json_object_get(object, field));
    for (int i = 0; i < VALUES; i++) {
        json_t *value = json_loads(values[i], JSON_DECODE_ANY, NULL);
        if (value)
            json_object_set_new(object, field, value);
        else
            json_object_del(object, field);
        golden_config(config, folder);
        snprintf(what, sizeof what, "%s %s", field, values[i]);
        try(what, text, sizeof text);
    }
    json_object_set_new(object, field, was);
}

static void try_fields(json_t *config, json_t *object)
{
    const char *field;
    json_t *copy = json_copy(object), *value;
    json_object_foreach(copy, field, value)
    {
        if (json_is_object(value))
            try_fields(config, json_object_get(object, field));
        try_values(config, object, field);
    }
    json_decref(copy);
}

START_TEST(spoilt_fields_give_one_line)
{
    enter(_i);
    json_t *config = golden_read(from, "config.json");
    json_t *list = golden_read(from, "tensors.json");
    golden_weights(list, folder);
    try_fields(config, config);
    json_decref(list);
    json_decref(config);
    tw_folder_remove(folder);
}
END_TEST

/* Shapes a tensor may be spoilt to; false: the same as it was. */
static bool spoil(json_t *shape, int way)
{
    size_t dims = json_array_size(shape);
    int64_t first = json_integer_value(json_array_get(shape, 0));
    int64_t last = json_integer_value(json_array_get(shape, dims - 1));
    switch (way) {
    case 0: /* one more column */
        return json_array_set_new(shape, dims - 1, json_integer(last + 1)) == 0;
    case 1: /* transposed */
        json_array_set_new(shape, 0, json_integer(last));
        json_array_set_new(shape, dims - 1, json_integer(first));
        return first != last;
    case 2: /* one more dimension */
        return json_array_append_new(shape, json_integer(1)) == 0;
    default: /* fewer rows */
        return json_array_set_new(shape, 0, json_integer(first / 2)) == 0;
    }
}

static void try_shapes(json_t *list, json_t *entry, bool is_needed)
{
    char text[1024];
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *was = json_incref(json_object_get(entry, "shape"));
    for (int way = 0; way < 4; way++) {
        json_t *shape = json_deep_copy(was);
        bool is_other = spoil(shape, way);
        json_object_set_new(entry, "shape", shape);
        golden_weights(list, folder);
        bool is_open = try(name, text, sizeof text);
        if (!is_other || !is_needed)
            continue;
        ck_assert_msg(!is_open, "%s %s, way %d, opened", from, name, way);
        ck_assert_msg(strstr(text, name) != NULL, "%s, way %d: %s", name, way,
                      text);
    }
    json_object_set_new(entry, "shape", was);
}

/* Buffers and predictors that the generator added are named so. */
static bool is_needed(const char *name)
{
    static const char *const spare[] = {"attn.bias", "masked_bias",
                                        "predictor"};
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        if (strstr(name, spare[i]))
            return false;
    return true;
}

START_TEST(spoilt_shapes_are_named)
{
    size_t i;
    json_t *entry;
    enter(_i);
    json_t *config = golden_read(from, "config.json");
    json_t *list = golden_read(from, "tensors.json");
    golden_config(config, folder);
    json_array_foreach(list, i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));
        try_shapes(list, entry, is_needed(name));
    }
    json_decref(list);
    json_decref(config);
    tw_folder_remove(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("families_hostile");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 300);
    tcase_add_loop_test(core, spoilt_fields_give_one_line, 0, CASES);
    tcase_add_loop_test(core, spoilt_shapes_are_named, 0, CASES);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
