/* Claim: the paper's checkpoints open under every name that the release's own
 * code has given their feed-forward matrices, stored either way, and what its
 * training keeps beside them is no tensor that is missed. */
#include <config.h>

#include "model/model.h"
#include "tw_check.h"
#include "tw_files.h"

enum { D = 8, F = 12, V = 10, VALUES = 4096 };

#define CONFIG                                                             \
    "{\"model_type\": \"llama_sparse_relu\", \"hidden_act\": \"silu\", "   \
    "\"hidden_size\": 8, \"intermediate_size\": %d, "                      \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, "               \
    "\"num_key_value_heads\": 2, \"vocab_size\": 10, "                     \
    "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, "            \
    "\"tie_word_embeddings\": true, \"sparsity_gated_mlp\": %s, "          \
    "\"sparsity_use_hybrid_kernel\": %s}"

/* A matrix of the layer: its name, and whether it is stored as [in][out]. */
struct stored {
    const char *name;
    bool is_flipped;
};

static const struct {
    struct stored gate, up, down;
} namings[] = {
    {{"gate_proj.weight", false},
     {"up_proj.weight", false},
     {"down_proj.weight", false}},
    {{"gate_weight", true}, {"up_weight", false}, {"down_weight", true}},
    {{"GATE", false}, {"UP", false}, {"DOWN", true}},
    {{"gate_proj.weight", false},
     {"up_proj.weight", false},
     {"down_proj.weight", true}},
    {{NULL, false}, {"up_proj.weight", false}, {"down_proj.weight", false}},
    {{NULL, false}, {"up_weight", true}, {"down_weight", true}},
    {{NULL, false}, {"UP", false}, {"DOWN", true}},
};
enum { NAMINGS = sizeof namings / sizeof *namings };

struct writer {
    char header[4096];
    size_t used;
    float data[VALUES];
    int64_t values;
};

static float value(int kind, int64_t row, int64_t col)
{
    return (float)(kind * 1000 + row * 20 + col);
}

/* A tensor of rows x cols (rows 0: a vector). */
static void put(struct writer *w, const char *name, int kind, int64_t rows,
                int64_t cols, bool is_flipped)
{
    int64_t begin = 4 * w->values, count = (rows ? rows : 1) * cols;
    char shape[64];
    for (int64_t i = 0; i < count; i++)
        w->data[w->values++] = is_flipped ? value(kind, i % rows, i / rows)
                                          : value(kind, i / cols, i % cols);
    if (rows == 0)
        snprintf(shape, sizeof shape, "%d", (int)cols);
    else
        snprintf(shape, sizeof shape, "%d,%d", (int)(is_flipped ? cols : rows),
                 (int)(is_flipped ? rows : cols));
    w->used += (size_t)snprintf(
        w->header + w->used, sizeof w->header - w->used,
        "%s'%s':{'dtype':'F32','shape':[%s],'data_offsets':[%lld,%lld]}",
        w->used > 1 ? "," : "", name, shape, (long long)begin,
        (long long)(4 * w->values));
}

static void put_stored(struct writer *w, const struct stored *s, int kind,
                       int64_t rows, int64_t cols)
{
    char name[80];
    if (!s->name)
        return;
    snprintf(name, sizeof name, "model.layers.0.mlp.%s", s->name);
    put(w, name, kind, rows, cols, s->is_flipped);
}

static void write_model(const char *folder, int naming, int64_t f,
                        const char *hybrid)
{
    static struct writer w;
    char config[1024];
    w = (struct writer){.header = "{", .used = 1};
    snprintf(config, sizeof config, CONFIG, (int)f,
             namings[naming].gate.name ? "true" : "false", hybrid);
    tw_write_text(folder, "config.json", config);
    put(&w, "model.embed_tokens.weight", 9, V, D, false);
    put(&w, "model.norm.weight", 9, 0, D, false);
    put(&w, "model.layers.0.input_layernorm.weight", 9, 0, D, false);
    put(&w, "model.layers.0.post_attention_layernorm.weight", 9, 0, D, false);
    static const char *const attention[] = {"q", "k", "v", "o"};
    for (int i = 0; i < 4; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s_proj.weight",
                 attention[i]);
        put(&w, name, 8, D, D, false);
    }
    put_stored(&w, &namings[naming].gate, 1, f, D);
    put_stored(&w, &namings[naming].up, 2, f, D);
    put_stored(&w, &namings[naming].down, 3, D, f);
    put(&w, "tracker.last_activated.0", 9, 0, 3, false);
    put(&w, "model.layers.0.mlp.tracker.l0", 9, 0, 3, false);
    put(&w, "metrics_accumulator.loss", 9, 0, 1, false);
    w.header[w.used++] = '}';
    w.header[w.used] = '\0';
    tw_write_safetensors(folder, "model.safetensors", w.header, w.data,
                         (size_t)w.values * sizeof *w.data);
}

static void check(const struct tw_matrix *m, int kind, int64_t rows,
                  int64_t cols)
{
    const float *data = m->data;
    ck_assert_ptr_nonnull(data);
    ck_assert(m->rows == rows && m->cols == cols);
    for (int64_t i = 0; i < rows * cols; i++)
        ck_assert(data[i] == value(kind, i / cols, i % cols));
}

START_TEST(every_naming_gives_the_same_matrices)
{
    const struct tw_model_options options = {.threads = 1};
    struct tw_error err = {0};
    struct tw_model *m = NULL;
    size_t at = 0;
    const char *folder = tw_folder_make();
    write_model(folder, _i, F, "false");
    TW_OK_OR_FAIL(tw_model_open(folder, &options, &m, &err), err);
    if (namings[_i].gate.name)
        check(&m->layer[0].ffn.gate, 1, F, D);
    check(&m->layer[0].ffn.up, 2, F, D);
    check(&m->layer[0].ffn.down, 3, D, F);
    ck_assert_ptr_null(tw_model_unused(m, &at));
    tw_model_close(m);
    tw_folder_remove(folder);
}
END_TEST

START_TEST(a_square_of_the_hybrid_kernel_is_refused)
{
    const struct tw_model_options options = {.threads = 1};
    struct tw_error err = {0};
    struct tw_model *m = NULL;
    const char *folder = tw_folder_make();
    write_model(folder, 0, D, "true");
    TW_FAILS_WITH(tw_model_open(folder, &options, &m, &err),
                  TW_ERR_UNSUPPORTED, "which way down_proj is stored", err);
    tw_folder_remove(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sparse names");
    TCase *core = tcase_create("core");
    tcase_add_loop_test(core, every_naming_gives_the_same_matrices, 0, NAMINGS);
    tcase_add_test(core, a_square_of_the_hybrid_kernel_is_refused);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
