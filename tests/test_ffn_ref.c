/* The cpu row's feed-forward layer against the reference row's, whole obs
 * included. Weights and rows are small whole numbers, so that every product,
 * count, l1 and magnitude is exact in float and has to be equal, ties of topk
 * and topp among them. */
#include <config.h>

#include "tests/ops_fixture.h"

#include "base/memory.h"

/* y adds up to d_ff terms of up to 2^14: float rounds where ref does not. */
#define OUTPUT_TOLERANCE 1e-5 /* relative to the largest output */

static const int64_t batches[][FIX_SEQS] = {{1}, {7, 64, 65}, {1, 1, 130}};

static const struct {
    int64_t d_model, d_ff;
    bool is_gated, has_bias;
    const char *activation, *apply; /* apply NULL: none */
    int shift;                      /* subtracted from gates: fewer fire */
    enum tw_dtype dtype;
} layers[] = {
    {72, 300, true, false, "relu", NULL, 0, TW_F32},
    {72, 300, true, true, "relu", NULL, 30, TW_BF16},
    {64, 1024, true, true, "relu2", NULL, 40, TW_F16},
    {64, 513, false, true, "relu", NULL, 25, TW_F32},
    {40, 300, true, true, "fatrelu:8", NULL, 10, TW_BF16},
    {40, 300, false, false, "relu2", NULL, 0, TW_BF16},
    {64, 300, true, true, "relu", "gate-abs:20", 0, TW_F32},
    {64, 300, true, true, "relu", "abs:200", 0, TW_F32},
    {64, 300, true, true, "relu", "topk:17", 0, TW_BF16},
    {64, 300, false, true, "relu", "topp:0.5", 0, TW_F32},
    {8, 1, true, false, "relu", NULL, 0, TW_F32},
};
static const char *const definitions[] = {"hidden",      "gate",   "abs:64",
                                          "gate-abs:16", "topp:0.7", "topk:9"};
enum { PROBES = sizeof definitions / sizeof *definitions };

/* A whole number of at most 3 in any of the types. */
static void put(void *data, enum tw_dtype dtype, int64_t i, int value)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200};
    static const uint16_t bfloats[] = {0, 0x3f80, 0x4000, 0x4040};
    uint16_t sign = value < 0 ? 0x8000 : 0;
    int size = abs(value);
    if (dtype == TW_F32)
        ((float *)data)[i] = (float)value;
    else
        ((uint16_t *)data)[i] =
            sign | (dtype == TW_F16 ? halves : bfloats)[size];
}

/* Whole numbers in [-most, most] in the wanted type. */
static void *whole_numbers(int64_t count, int most, enum tw_dtype dtype)
{
    void *data = tw_alloc_aligned((size_t)count, tw_dtype_size(dtype));
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < count; i++) {
        int value = (int)(fix_random() % (uint64_t)(2 * most + 1)) - most;
        put(data, dtype, i, value);
    }
    return data;
}

static struct tw_matrix matrix(int64_t rows, int64_t cols, int most,
                               enum tw_dtype dtype)
{
    return (struct tw_matrix){whole_numbers(rows * cols, most, dtype), dtype,
                              rows, cols};
}

static void describe(struct tw_ffn_desc *desc, int layer,
                     struct tw_active *apply)
{
    struct tw_error err = {0};
    int64_t d = layers[layer].d_model, f = layers[layer].d_ff;
    enum tw_dtype dtype = layers[layer].dtype;
    *desc = (struct tw_ffn_desc){.d_model = d, .d_ff = f};
    TW_OK_OR_FAIL(tw_activation_parse(layers[layer].activation,
                                      &desc->activation, &err), err);
    desc->up = matrix(f, d, 1, dtype);
    desc->down = matrix(d, f, 1, dtype);
    if (layers[layer].is_gated)
        desc->gate = matrix(f, d, 1, dtype);
    struct tw_matrix bias = matrix(1, f, 3, TW_F32);
    for (int64_t i = 0; i < f; i++)
        ((float *)(uintptr_t)bias.data)[i] -= (float)layers[layer].shift;
    if (layers[layer].is_gated)
        desc->gate_bias = bias;
    else
        desc->up_bias = bias;
    if (layers[layer].has_bias)
        desc->down_bias = matrix(1, d, 3, TW_F32);
    if (layers[layer].apply) {
        TW_OK_OR_FAIL(tw_active_parse(layers[layer].apply, apply, &err), err);
        desc->apply = apply;
    }
}

static void forget(struct tw_ffn_desc *desc)
{
    const struct tw_matrix all[] = {desc->gate, desc->up, desc->down,
                                    desc->gate_bias, desc->up_bias,
                                    desc->down_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tw_free((void *)(uintptr_t)all[i].data);
}

/* Runs the layer on one backend: the output, and obs. */
static float *run(struct fix_backend *be, const struct tw_ffn_desc *desc,
                  const float *x, int64_t rows, struct tw_layer_obs *obs)
{
    struct tw_error err = {0};
    struct tw_active active[PROBES];
    const struct tw_probes probes = {PROBES, active};
    struct tw_ffn *ffn;
    float *y = fix_poison(rows * desc->d_model);
    for (int i = 0; i < PROBES; i++)
        TW_OK_OR_FAIL(tw_active_parse(definitions[i], &active[i], &err), err);
    TW_OK_OR_FAIL(tw_layer_obs_init(obs, rows, desc->d_ff, PROBES, 1, 1, &err),
                  err);
    tw_layer_obs_reset(obs, rows);
    TW_OK_OR_FAIL(be->ops->ffn_load(be->ctx, desc, &ffn, &err), err);
    TW_OK_OR_FAIL(be->ops->ffn(be->ctx, y, x, x, ffn, &probes, obs, &err), err);
    be->ops->ffn_free(be->ctx, ffn);
    return y;
}

#define SAME(field, count)                                              \
    ck_assert_msg(memcmp(a->field, b->field,                            \
                         (size_t)(count) * sizeof *a->field) == 0,      \
                  #field " differs")

static void same_obs(const struct tw_layer_obs *a, const struct tw_layer_obs *b)
{
    static const int widths[] = {64, 128, 256};
    SAME(nnz, (int64_t)PROBES * a->rows);
    SAME(fired, (int64_t)PROBES * a->width);
    SAME(first, (int64_t)PROBES * a->width);
    SAME(last, (int64_t)PROBES * a->width);
    SAME(seen, 1);
    SAME(l1, a->rows);
    SAME(abs_sum, a->width);
    SAME(abs_max, a->width);
    SAME(magnitude, TW_MAGNITUDE_BINS);
    for (int i = 0; i < TW_TILE_WIDTHS; i++)
        SAME(tiles[i], widths[i] + 1);
    ck_assert_int_eq(a->bad_row, b->bad_row);
}

static void same_output(const float *a, const float *b, int64_t count)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        worst = fmax(worst, fabs((double)a[i] - b[i]));
        ck_assert(!isnan(a[i]));
    }
    ck_assert_msg(worst <= OUTPUT_TOLERANCE * fmax(1, largest),
                  "off by %g of %g", worst, largest);
}

START_TEST(cpu_counts_what_ref_counts)
{
    int layer = _i % (int)(sizeof layers / sizeof *layers);
    int batch = _i / (int)(sizeof layers / sizeof *layers) % 3;
    struct fix_batch fix;
    struct tw_active apply;
    struct tw_ffn_desc desc;
    struct tw_layer_obs obs[2];
    fix_seed((uint64_t)_i + 1);
    fix_batch_init(&fix, batches[batch], 100);
    struct fix_backend cpu = fix_start(&tw_ops_cpu, 2, 0, &fix);
    struct fix_backend ref = fix_start(&tw_ops_ref, 1, 0, &fix);
    describe(&desc, layer, &apply);
    int64_t rows = fix.batch.rows;
    float *x = whole_numbers(rows * desc.d_model, 2, TW_F32);
    float *want = run(&ref, &desc, x, rows, &obs[1]);
    for (int path = TW_FFN_TWELL; path <= TW_FFN_DENSE; path++) {
        desc.path = (enum tw_ffn_path)path;
        float *got = run(&cpu, &desc, x, rows, &obs[0]);
        same_obs(&obs[0], &obs[1]);
        same_output(got, want, rows * desc.d_model);
        tw_layer_obs_fini(&obs[0]);
        tw_free(got);
    }
    tw_layer_obs_fini(&obs[1]);
    tw_free(want);
    tw_free(x);
    forget(&desc);
    fix_end(&cpu);
    fix_end(&ref);
    fix_batch_fini(&fix);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ffn against ref");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, cpu_counts_what_ref_counts, 0,
                        3 * (int)(sizeof layers / sizeof *layers));
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
