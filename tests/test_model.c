/* Claims about resolved models: families go by model_type alone, the
 * activation says where it came from, each fault of config or tensors is
 * named, the four cases of a tied head, rope scaling, and the facts of the
 * released family's checkpoints. */
#include <config.h>

#include <math.h>

#include "base/memory.h"
#include "model/model.h"
#include "tw_check.h"
#include "tw_files.h"
#include "tw_llama.h"

static const char *folder;
static const struct tw_model_options plain = {.threads = 1};

static void setup(void)
{
    folder = tw_folder_make();
}

static void teardown(void)
{
    tw_folder_remove(folder);
}

static struct tw_model *open_tiny(const struct tiny_edit *edit,
                                  const struct tw_model_options *options)
{
    struct tw_error err = {0};
    struct tw_model *model = NULL;
    tiny_write(folder, edit);
    TW_OK_OR_FAIL(tw_model_open(folder, options, &model, &err), err);
    return model;
}

#define GATE "model.layers.1.mlp.gate_proj.weight"

static const struct {
    struct tiny_edit edit;
    enum tw_status status;
    const char *words;
} faults[] = {
    {{.from = "\"model_type\": \"llama\"", .to = "\"model_type\": \"opt9\""},
     TW_ERR_UNSUPPORTED,
     "config.json: model_type 'opt9' is not supported; supported: arcee, "},
    {{.from = "\"model_type\": \"llama\"", .to = "\"model_kind\": \"llama\""},
     TW_ERR_FORMAT,
     "config.json: no field 'model_type'"},
    {{.from = "\"hidden_act\": \"relu\", ", .to = ""},
     TW_ERR_FORMAT,
     "config.json: no field 'hidden_act'"},
    {{.from = "\"relu\"", .to = "\"frelu\""},
     TW_ERR_UNSUPPORTED,
     "config.json: "},
    {{.from = "\"relu\"", .to = "\"frelu\""}, TW_ERR_UNSUPPORTED, "frelu"},
    {{.from = "\"relu\"", .to = "\"fatrelu\""},
     TW_ERR_FORMAT,
     "no field 'hidden_act_param'"},
    {{.from = "\"hidden_size\": 8, ", .to = ""},
     TW_ERR_FORMAT,
     "no field 'hidden_size'"},
    {{.from = "\"hidden_size\": 8", .to = "\"hidden_size\": 0"},
     TW_ERR_FORMAT,
     "field 'hidden_size' is 0"},
    {{.from = "\"hidden_size\": 8", .to = "\"hidden_size\": -8"},
     TW_ERR_FORMAT,
     "is -8"},
    {{.from = "\"hidden_size\": 8", .to = "\"hidden_size\": 8.5"},
     TW_ERR_FORMAT,
     "field 'hidden_size' is not an integer"},
    {{.from = "\"hidden_size\": 8", .to = "\"hidden_size\": 4294967296"},
     TW_ERR_FORMAT,
     "2^31-1"},
    {{.from = "\"num_hidden_layers\": 2",
      .to = "\"num_hidden_layers\": 2147483647"},
     TW_ERR_MISMATCH,
     "num_hidden_layers 2147483647 but the checkpoint has"},
    {{.from = "\"num_hidden_layers\": 2", .to = "\"num_hidden_layers\": 3"},
     TW_ERR_NOT_FOUND,
     "no tensor 'model.layers.2.input_layernorm.weight'"},
    {{.from = "value_heads\": 1", .to = "value_heads\": 3"},
     TW_ERR_FORMAT,
     "cannot share"},
    {{.from = "\"head_dim\": 4", .to = "\"head_dim\": 3"},
     TW_ERR_FORMAT,
     "odd"},
    {{.from = "1e-5", .to = "-1"}, TW_ERR_FORMAT, "rms_norm_eps"},
    {{.from = "\"extra\": 0", .to = "\"pretraining_tp\": 2"},
     TW_ERR_UNSUPPORTED,
     "pretraining_tp 2"},
    {{.from = "\"extra\": 0", .to = "\"quantization_config\": {\"bits\": 4}"},
     TW_ERR_UNSUPPORTED,
     "quantization_config"},
    {{.from = "\"extra\": 0", .to = "\"partial_rotary_factor\": 0.5"},
     TW_ERR_UNSUPPORTED,
     "partial_rotary_factor 0.5"},
    {{.from = "\"extra\": 0", .to = "\"rope_theta\": -1"},
     TW_ERR_FORMAT,
     "rope_theta"},
    {{.from = "\"extra\": 0", .to = "\"rope_theta\": NaN"},
     TW_ERR_FORMAT,
     "rope_theta"},
    {{.from = "\"extra\": 0", .to = "\"rope_scaling\": {\"type\": \"ntk9\"}"},
     TW_ERR_UNSUPPORTED,
     "rope_type 'ntk9' is not supported; supported: default, linear, dynamic, "
     "llama3, yarn, longrope"},
    {{.from = "\"extra\": 0",
      .to = "\"rope_scaling\": {\"type\": \"longrope\", "
            "\"short_factor\": [1]}"},
     TW_ERR_FORMAT,
     "rope_scaling.short_factor has 1 numbers, expected 2"},
    {{.from = "\"extra\": 0",
      .to = "\"rope_scaling\": {\"rope_type\": \"linear\"}"},
     TW_ERR_FORMAT,
     "no field 'rope_scaling.factor'"},
    {{.from = "\"extra\": 0",
      .to = "\"rope_scaling\": {}, \"rope_parameters\": {}"},
     TW_ERR_FORMAT,
     "both"},
    {{.from = "\"extra\": 0", .to = "\"rope_scaling\": 7"},
     TW_ERR_FORMAT,
     "'rope_scaling' is not an object"},
    {{.from = "\"vocab_size\": 10", .to = "\"vocab_size\": 12"},
     TW_ERR_MISMATCH,
     "config.json: vocab_size 12 but model.embed_tokens.weight has 10 rows"},
    {{.from = "\"extra\": 0", .to = "\"attention_bias\": true"},
     TW_ERR_NOT_FOUND,
     "no tensor 'model.layers.0.self_attn.q_proj.bias'"},
    {{.from = "\"extra\": 0", .to = "\"mlp_bias\": true"},
     TW_ERR_NOT_FOUND,
     "no tensor 'model.layers.0.mlp.gate_proj.bias'"},
    {{.tensor = GATE, .type = ""},
     TW_ERR_NOT_FOUND,
     "model.safetensors: no tensor '" GATE "'"},
    {{.tensor = GATE, .shape = "12,7"},
     TW_ERR_MISMATCH,
     "model.safetensors: tensor '" GATE "' has shape [12, 7], expected "
     "[12, 8]"},
    {{.tensor = GATE, .shape = "96"},
     TW_ERR_MISMATCH,
     "has shape [96], expected [12, 8]"},
    {{.tensor = GATE, .type = "I32"}, TW_ERR_MISMATCH, "has type int32"},
    {{.tensor = GATE, .type = "F64"}, TW_ERR_MISMATCH, "has type F64"},
    {{.tensor = GATE, .has_nan = 1},
     TW_ERR_NUMERIC,
     "tensor '" GATE "' is not a finite number at [11, 7]"},
    {{.tensor = "lm_head.weight", .type = ""},
     TW_ERR_NOT_FOUND,
     "no tensor 'lm_head.weight'"},
    {{.tensor = "model.norm.weight", .shape = "2,4"},
     TW_ERR_MISMATCH,
     "has shape [2, 4], expected [8]"},
};

START_TEST(each_fault_is_named)
{
    struct tw_error err = {0};
    struct tw_model *model;
    tiny_write(folder, &faults[_i].edit);
    TW_FAILS_WITH(tw_model_open(folder, &plain, &model, &err),
                  faults[_i].status, faults[_i].words, err);
}
END_TEST

START_TEST(a_sound_model_has_its_facts)
{
    struct tiny_edit edit = {.add = "model.layers.0.self_attn.q_proj.bias:8"};
    size_t at = 0;
    struct tw_model_memory memory;
    struct tw_model *m = open_tiny(&edit, &plain);
    ck_assert_str_eq(m->model_type, "llama");
    ck_assert_int_eq(m->d_ff, TINY_F);
    ck_assert_int_eq(m->kv_heads, TINY_KV);
    ck_assert(m->is_gated && m->rope.dims == TINY_HEAD_DIM);
    ck_assert_str_eq(m->activation.name, "relu");
    ck_assert_str_eq(m->activation_source, "config.json");
    ck_assert_str_eq(m->head_source, "lm_head.weight");
    ck_assert_str_eq(m->position_text, "rope theta 10000");
    ck_assert_str_eq(m->dtype, "float32");
    ck_assert_int_eq(m->parameters, 2 * (16 + 128 + 64 + 288) + 160 + 8);
    ck_assert_int_eq(m->bytes, 4 * m->parameters);
    ck_assert_uint_eq(strlen(m->hash), 64);
    ck_assert_int_eq(m->layer[1].ffn.path, TW_FFN_TWELL);
    ck_assert_ptr_null(m->layer[0].q_bias.data); /* the config wins */
    ck_assert_str_eq(tw_model_unused(m, &at),
                     "model.layers.0.self_attn.q_proj.bias");
    ck_assert_ptr_null(tw_model_unused(m, &at));
    tw_model_memory(m, 100, &memory);
    ck_assert_int_eq(memory.widened_bytes, 0); /* float32 already */
    ck_assert_int_eq(memory.buffer_bytes, 100 * 4 * (16 + 2 * 12 + TINY_F));
    tw_model_close(m);
}
END_TEST

START_TEST(known_buffers_are_not_unused)
{
    struct tiny_edit edit = {
        .add = "model.layers.0.self_attn.rotary_emb.inv_freq:2"};
    size_t at = 0;
    struct tw_model *m = open_tiny(&edit, &plain);
    ck_assert_ptr_null(tw_model_unused(m, &at));
    tw_model_close(m);
}
END_TEST

static const struct {
    const char *act, *override, *apply, *name, *source;
    enum tw_model_path path;
    enum tw_ffn_path expected;
} acts[] = {
    {"\"silu\"", NULL, NULL, "silu", "config.json", 0, TW_FFN_DENSE},
    {"\"silu\"", "relu", NULL, "relu", "override", 0, TW_FFN_TWELL},
    {"\"nonsense\"", "relu", NULL, "relu", "override", 0, TW_FFN_TWELL},
    {"\"silu\"", NULL, "gate-abs:0.1", "silu", "config.json", 0, TW_FFN_TWELL},
    {"\"silu\"", NULL, "topk:3", "silu", "config.json", 0, TW_FFN_DENSE},
    {"\"fatrelu\", \"hidden_act_param\": 0.01", NULL, NULL, "fatrelu:0.01",
     "config.json", 0, TW_FFN_TWELL},
    {"\"relu\"", NULL, NULL, "relu", "config.json", TW_MODEL_PATH_DENSE,
     TW_FFN_DENSE},
    {"\"silu\"", NULL, NULL, "silu", "config.json", TW_MODEL_PATH_TWELL,
     TW_FFN_TWELL},
};

START_TEST(the_activation_says_where_it_came_from)
{
    struct tw_error err = {0};
    struct tw_active apply;
    struct tiny_edit edit = {.from = "\"relu\"", .to = acts[_i].act};
    struct tw_model_options options = {
        .threads = 2, .activation = acts[_i].override, .path = acts[_i].path};
    if (acts[_i].apply) {
        TW_OK_OR_FAIL(tw_active_parse(acts[_i].apply, &apply, &err), err);
        options.apply = &apply;
    }
    struct tw_model *m = open_tiny(&edit, &options);
    ck_assert_str_eq(m->activation.name, acts[_i].name);
    ck_assert_str_eq(m->activation_source, acts[_i].source);
    ck_assert_int_eq(m->layer[0].ffn.path, acts[_i].expected);
    ck_assert((m->layer[0].ffn.apply != NULL) == (acts[_i].apply != NULL));
    tw_model_close(m);
}
END_TEST

START_TEST(an_unknown_override_is_refused)
{
    struct tw_error err = {0};
    struct tw_model *model;
    struct tw_model_options options = {.threads = 1, .activation = "nope"};
    tiny_write(folder, &(struct tiny_edit){0});
    TW_FAILS_WITH(tw_model_open(folder, &options, &model, &err),
                  TW_ERR_UNSUPPORTED, "nope", err);
    ck_assert(strncmp(err.text, "config.json", 11) != 0);
}
END_TEST

#define SPARSE_TYPE                                       \
    .from = "\"model_type\": \"llama\", \"hidden_act\": " \
            "\"relu\""

static const struct {
    const char *to, *source;
} sparse[] = {
    {"\"model_type\": \"llama_sparse_relu\", \"hidden_act\": \"silu\"",
     "family (config.json says hidden_act 'silu', the family's code is ReLU)"},
    {"\"model_type\": \"llama_sparse_relu\", \"hidden_act\": \"relu\"",
     "family"},
    {"\"model_type\": \"llama_sparse_relu\"", "family"},
};

START_TEST(the_release_is_relu_whatever_its_config_says)
{
    struct tiny_edit edit = {SPARSE_TYPE, .to = sparse[_i].to};
    struct tw_model *m = open_tiny(&edit, &plain);
    ck_assert_str_eq(m->activation.name, "relu");
    ck_assert_str_eq(m->activation_source, sparse[_i].source);
    ck_assert(m->is_gated);
    tw_model_close(m);
}
END_TEST

START_TEST(the_release_may_be_plain_and_of_another_width)
{
    struct tw_error err = {0};
    struct tw_model *model;
    size_t at = 0;
    struct tiny_edit edit = {SPARSE_TYPE,
                             .to = "\"model_type\": \"llama_sparse_relu\", "
                           "\"sparsity_gated_mlp\": false"};
    struct tw_model *m = open_tiny(&edit, &plain);
    ck_assert(!m->is_gated && !m->layer[0].ffn.gate.data);
    ck_assert_str_eq(tw_model_unused(m, &at),
                     "model.layers.0.mlp.gate_proj.weight");
    tw_model_close(m);
    edit.to = "\"model_type\": \"llama_sparse_relu\", "
              "\"sparsity_new_intermediate_size\": 16";
    tiny_write(folder, &edit);
    TW_FAILS_WITH(tw_model_open(folder, &plain, &model, &err), TW_ERR_MISMATCH,
                  "has shape [12, 8], expected [16, 8]", err);
}
END_TEST

#define TIED .from = "embeddings\": false", .to = "embeddings\": true"

START_TEST(the_head_is_what_config_and_file_make_it)
{
    size_t at = 0;
    struct tiny_edit missing = {TIED, .tensor = "lm_head.weight", .type = ""};
    struct tw_model *m = open_tiny(&missing, &plain);
    ck_assert_str_eq(m->head_source, "model.embed_tokens.weight (tied)");
    ck_assert_ptr_eq(m->head.data, m->embed.data);
    int64_t parameters = m->parameters;
    tw_model_close(m);

    struct tiny_edit both = {TIED};
    m = open_tiny(&both, &plain);
    ck_assert_str_eq(m->head_source,
                     "model.embed_tokens.weight (tied by config.json; "
                     "lm_head.weight differs, unused)");
    ck_assert_ptr_eq(m->head.data, m->embed.data);
    ck_assert_str_eq(tw_model_unused(m, &at), "lm_head.weight");
    ck_assert_int_eq(m->parameters, parameters);
    tw_model_close(m);
}
END_TEST

/* Overwrites the file's first and last 10 * 8 floats, which are the embedding
 * and the head, with zeros: the same bytes. */
static void make_head_a_copy(void)
{
    static const float zeros[TINY_V * TINY_D];
    uint64_t header;
    FILE *file = fopen(tw_in(folder, "model.safetensors"), "r+b");
    ck_assert_ptr_nonnull(file);
    ck_assert(fread(&header, sizeof header, 1, file) == 1);
    fseek(file, (long)(sizeof header + header), SEEK_SET);
    ck_assert(fwrite(zeros, sizeof zeros, 1, file) == 1);
    fseek(file, -(long)sizeof zeros, SEEK_END);
    ck_assert(fwrite(zeros, sizeof zeros, 1, file) == 1);
    fclose(file);
}

START_TEST(a_copied_head_is_not_unused)
{
    struct tw_error err = {0};
    struct tw_model *m = NULL;
    size_t at = 0;
    tiny_write(folder, &(struct tiny_edit){TIED});
    make_head_a_copy();
    TW_OK_OR_FAIL(tw_model_open(folder, &plain, &m, &err), err);
    ck_assert_str_eq(m->head_source,
                     "model.embed_tokens.weight (tied; lm_head.weight is a "
                     "copy)");
    ck_assert_ptr_null(tw_model_unused(m, &at));
    tw_model_close(m);
}
END_TEST

static const struct {
    const char *config, *text;
    float last; /* inv_freq[1] */
} ropes[] = {
    {"\"rope_theta\": 500000.0", "rope theta 500000", 0.0014142136f},
    {"\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e4}",
     "rope theta 10000", 0.01f},
    {"\"rope_scaling\": null", "rope theta 10000", 0.01f},
    {"\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}",
     "rope theta 10000, linear x4", 0.0025f},
    /* Wave 628 between 400 and 1000: smooth = (1000/628.3 - 1) / 1.5. */
    {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
     "\"low_freq_factor\": 1, \"high_freq_factor\": 2.5, "
     "\"original_max_position_embeddings\": 1000}",
     "rope theta 10000, llama3 x8", 0.004700705f},
    /* Wave 628 above 100 (all of it scaled), and below 4000 (none). */
    {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
     "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
     "\"original_max_position_embeddings\": 100}",
     "rope theta 10000, llama3 x8", 0.00125f},
    {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
     "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
     "\"original_max_position_embeddings\": 16000}",
     "rope theta 10000, llama3 x8", 0.01f},
    {"\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}",
     "rope theta 10000, dynamic x4", 0.01f},
    /* 32 turns and 1 over 1024 positions: dimensions 0.35 and 1.11, cut to 0
     * and 2, so that half of frequency 1 is divided. */
    {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "
     "\"original_max_position_embeddings\": 1024}",
     "rope theta 10000, yarn x4", 0.00625f},
    {"\"rope_scaling\": {\"type\": \"longrope\", "
     "\"short_factor\": [1, 4], \"long_factor\": [1, 9], "
     "\"original_max_position_embeddings\": 16}",
     "rope theta 10000, longrope x2", 0.0025f},
};

START_TEST(rope_frequencies_follow_the_config)
{
    struct tiny_edit edit = {.from = "\"extra\": 0", .to = ropes[_i].config};
    struct tw_model *m = open_tiny(&edit, &plain);
    ck_assert_str_eq(m->position_text, ropes[_i].text);
    ck_assert(fabsf(m->rope.inv_freq[1] / ropes[_i].last - 1) < 1e-5f);
    tw_model_close(m);
}
END_TEST

START_TEST(mutated_configs_never_crash)
{
    enum { ROUNDS = 3000 };
    static const char likely[] = "0123456789-[]{},:\"\\e.NaIt";
    static const char config[] = TINY_CONFIG;
    uint32_t state = 7;
    int opened = 0;
    char text[sizeof config];
    tiny_write(folder, &(struct tiny_edit){0});
    for (int i = 0; i < ROUNDS; i++) {
        struct tw_error err = {0};
        struct tw_model *m = NULL;
        memcpy(text, config, sizeof config);
        for (int k = 0; k <= i % 3; k++) {
            state = state * 1664525u + 1013904223u;
            text[(state >> 8) % (sizeof config - 1)] =
                likely[(state >> 20) % (sizeof likely - 1)];
        }
        tw_write(folder, "config.json", text, sizeof config - 1);
        if (tw_model_open(folder, &plain, &m, &err) == TW_OK)
            opened++;
        else
            ck_assert_str_ne(err.text, "");
        tw_model_close(m);
    }
    ck_assert_int_gt(opened, 0);
    ck_assert_int_lt(opened, ROUNDS / 2);
}
END_TEST

START_TEST(every_failed_allocation_is_an_error)
{
    enum tw_status status = TW_ERR_NOMEM;
    struct tw_model *m = NULL;
    int i = 0;
    tiny_write(folder, &(struct tiny_edit){0});
    for (; status != TW_OK && i < 1000; i++) {
        struct tw_error err = {0};
        tw_alloc_fail_after(i);
        status = tw_model_open(folder, &plain, &m, &err);
        tw_alloc_fail_after(-1);
        ck_assert_msg(status == TW_OK || status == TW_ERR_NOMEM,
                      "allocation %d: %s", i, err.text);
    }
    ck_assert_int_eq(status, TW_OK);
    ck_assert_int_gt(i, 10);
    tw_model_close(m);
}
END_TEST

static const struct {
    const char *place, *type, *dtype, *head;
    int64_t parameters, d_ff;
    bool is_gated;
    enum tw_ffn_path path;
} shared[] = {
    {"goldens/llama_relu_tied", "llama", "bfloat16",
     "model.embed_tokens.weight (tied)", 192960, 192, true, TW_FFN_TWELL},
    {"goldens/llama_silu", "llama", "float32", "lm_head.weight", 213440, 192,
     true, TW_FFN_DENSE},
    {"goldens/llama_sparse_plain", "llama_sparse_relu", "bfloat16",
     "model.embed_tokens.weight (tied)", 168384, 256, false, TW_FFN_TWELL},
    {"checkpoints/sparselm-tiny", "llama_sparse_relu", "bfloat16",
     "model.embed_tokens.weight (tied)", 1541760, 384, true, TW_FFN_TWELL},
    {"checkpoints/sparselm-17m", "llama_sparse_relu", "bfloat16",
     "model.embed_tokens.weight (tied)", 16521600, 1024, true, TW_FFN_TWELL},
};

START_TEST(released_checkpoints_open)
{
    const char *root = getenv("TW_SHARED");
    struct tw_error err = {0};
    struct tw_model *m = NULL;
    size_t at = 0;
    if (!root || access(tw_in(root, shared[_i].place), R_OK) != 0) {
        fprintf(stderr, "skipped: no %s in TW_SHARED\n", shared[_i].place);
        return;
    }
    TW_OK_OR_FAIL(
        tw_model_open(tw_in(root, shared[_i].place), &plain, &m, &err), err);
    ck_assert_str_eq(m->model_type, shared[_i].type);
    ck_assert_str_eq(m->dtype, shared[_i].dtype);
    ck_assert_str_eq(m->head_source, shared[_i].head);
    ck_assert_int_eq(m->parameters, shared[_i].parameters);
    ck_assert_int_eq(m->d_ff, shared[_i].d_ff);
    ck_assert_int_eq(m->is_gated, shared[_i].is_gated);
    ck_assert_int_eq(m->layer[0].ffn.path, shared[_i].path);
    ck_assert_ptr_null(tw_model_unused(m, &at));
    tw_model_close(m);
}
END_TEST

int main(void)
{
#define ROWS(table) (int)(sizeof table / sizeof *table)
    Suite *suite = suite_create("model");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, each_fault_is_named, 0, ROWS(faults));
    tcase_add_test(core, a_sound_model_has_its_facts);
    tcase_add_test(core, known_buffers_are_not_unused);
    tcase_add_loop_test(core, the_activation_says_where_it_came_from, 0,
                        ROWS(acts));
    tcase_add_test(core, an_unknown_override_is_refused);
    tcase_add_loop_test(core, the_release_is_relu_whatever_its_config_says, 0,
                        ROWS(sparse));
    tcase_add_test(core, the_release_may_be_plain_and_of_another_width);
    tcase_add_test(core, the_head_is_what_config_and_file_make_it);
    tcase_add_test(core, a_copied_head_is_not_unused);
    tcase_add_loop_test(core, rope_frequencies_follow_the_config, 0,
                        ROWS(ropes));
    tcase_add_test(core, mutated_configs_never_crash);
    tcase_add_test(core, every_failed_allocation_is_an_error);
    tcase_add_loop_test(core, released_checkpoints_open, 0, ROWS(shared));
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
