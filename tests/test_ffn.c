/* The cpu backend's feed-forward layer against a naive double reference, and
 * its promises: exact counts, and bits that are free of threads, of the batch
 * and of what is counted. */
#include <config.h>

#include "kernels/cpu/dense_baseline.h"
#include "tests/ffn_check.h"

static const struct {
    int64_t d, f, rows;
} shapes[] = {{8, 1, 1},       {64, 63, 7},     {72, 64, 63},   {128, 300, 64},
              {200, 1024, 65}, {384, 300, 255}, {8, 5632, 257}, {384, 1024, 33},
              {33, 257, 31},   {2000, 40, 16}};
static const struct case_kind kinds[] = {
    {"relu", TW_BF16, TW_BF16, TW_BF16, true, true, 30, TW_FFN_TWELL, false},
    {"relu", TW_F32, TW_F32, TW_F32, true, false, 0, TW_FFN_TWELL, false},
    {"relu2", TW_F16, TW_F16, TW_F16, true, true, 20, TW_FFN_TWELL, false},
    {"relu", TW_F32, TW_BF16, TW_F16, true, true, 12, TW_FFN_TWELL, false},
    {"fatrelu:3", TW_BF16, TW_F16, TW_F32, true, true, 25, TW_FFN_TWELL, false},
    {"relu", TW_BF16, TW_BF16, TW_BF16, false, true, 8, TW_FFN_TWELL, false},
    {"relu2", TW_F32, TW_F32, TW_BF16, false, false, 0, TW_FFN_TWELL, false},
    {"relu", TW_BF16, TW_BF16, TW_BF16, true, true, 9, TW_FFN_DENSE, false},
    {"relu", TW_F16, TW_F32, TW_BF16, true, false, 0, TW_FFN_DENSE, false},
    {"relu2", TW_F32, TW_BF16, TW_F32, false, true, 3, TW_FFN_DENSE, false},
    {"relu", TW_BF16, TW_BF16, TW_BF16, true, true, 9, TW_FFN_TWELL, true},
    {"relu2", TW_F32, TW_F16, TW_F16, true, false, 9, TW_FFN_TWELL, true},
    {"relu", TW_F32, TW_F32, TW_F32, true, true, 3, TW_FFN_DENSE, true}};
static const char *const simds[] = {"", "v3", "base"};
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const char *const all_probes[] = {"hidden",       "gate",     "abs:3",
                                         "gate-abs:2.5", "topp:0.5", "topk:5"};

START_TEST(equals_the_reference)
{
    int shape = _i % COUNT(shapes), kind = _i / COUNT(shapes) % COUNT(kinds);
    int simd = _i / COUNT(shapes) / COUNT(kinds);
    if (simd > 0 && (shape + kind) % 3 != 0)
        return; // a third of the cases for the narrower sets
    setenv("TW_SIMD", simds[simd], 1);
    struct ffn_case c = {.d = shapes[shape].d, .f = shapes[shape].f};
    case_rows(&c, shapes[shape].rows);
    case_weights(&c, &kinds[kind]);
    bool has_top = c.f <= 512;
    case_probes(&c, has_top ? 6 : 4, all_probes);
    for (int64_t r = 0; r < c.rows; r += 5)
        c.row_class[r] |= TW_ROW_SKIPPED;
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    check_all(&c);
    if (kinds[kind].path == TW_FFN_DENSE) {
        ck_assert_int_eq(c.obs.dense_rows, c.rows);
        ck_assert_int_eq(c.obs.overflow_tiles, 0);
    }
    case_fini(&c);
}
END_TEST

static const char *const applied[] = {"hidden",       "gate",     "abs:4",
                                      "gate-abs:2.5", "topp:0.6", "topk:7"};

START_TEST(applies_a_definition)
{
    int kind = _i / COUNT(applied);
    struct ffn_case c = {.d = 64, .f = 300};
    case_rows(&c, 65);
    case_weights(&c, &kinds[kind]);
    struct tw_active apply;
    TW_OK_OR_FAIL(tw_active_parse(applied[_i % COUNT(applied)], &apply, &c.err),
                  c.err);
    c.desc.apply = &apply;
    case_probes(&c, 6, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    check_all(&c);
    case_probes(&c, 2, all_probes); // no probe that forbids the sparse pass
    TW_OK_OR_FAIL(case_run(&c), c.err);
    check_all(&c);
    case_fini(&c);
}
END_TEST

/* Row r's input is the unit vector r % 8, and column r % 8 of the gate says
 * which neurons fire: how many in the first tile and in the second; there are
 * 64 slots. */
_Static_assert(TWP_SLOTS == 64, "rows stand at 63, 64 and 65");
static const int fire[8][2] = {{0, 0},  {63, 0}, {64, 64},   {65, 0},
                               {0, 65}, {3, 1},  {256, 256}, {64, 63}};

static const struct case_kind hot_kinds[] = {
    {"relu", TW_BF16, TW_BF16, TW_BF16, true, false, 0, TW_FFN_TWELL, false},
    {"relu", TW_F32, TW_F32, TW_F32, true, false, 0, TW_FFN_TWELL, false}};

static void one_hot(struct ffn_case *c, int64_t rows, int kind)
{
    case_rows(c, rows);
    case_weights(c, &hot_kinds[kind]);
    memset(c->x, 0, (size_t)(rows * c->d) * sizeof *c->x);
    for (int64_t r = 0; r < rows; r++)
        c->x[r * c->d + r % 8] = 1;
    for (int64_t n = 0; n < c->f; n++)
        for (int k = 0; k < 8; k++)
            c->gate[n * c->d + k] =
                n % 256 < fire[k][n / 256] ? (float)(1 + n % 3) : -1;
    c->desc.gate = store_matrix(c, c->gate, TW_BF16, c->f, c->d);
}

START_TEST(routes_rows_that_overflow_and_no_others)
{
    struct ffn_case c = {.d = 8, .f = 512};
    one_hot(&c, 160, _i);
    case_probes(&c, 4, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    check_all(&c);
    ck_assert_int_eq(c.obs.overflow_tiles, 20 * (1 + 1 + 2));
    ck_assert_int_eq(c.obs.overflow_rows, 20 * 3);
    ck_assert_int_eq(c.obs.dense_rows, 20 * 3);
    for (int64_t r = 0; r < c.rows; r++)
        ck_assert_int_eq(c.obs.nnz[c.rows + r],
                         fire[r % 8][0] + fire[r % 8][1]);
    case_fini(&c);
}
END_TEST

/* Keeps a run's results. */
static float *keep(struct ffn_case *c, const float *from, int64_t n)
{
    float *copy = own(c, (size_t)n, sizeof *copy);
    memcpy(copy, from, (size_t)n * sizeof *copy);
    return copy;
}

static void real_values(struct ffn_case *c)
{
    uint32_t seed = 77;
    for (int64_t i = 0; i < c->rows * c->d; i++)
        c->x[i] = (float)next_random(&seed) / 8388608.0f - 1;
}

START_TEST(bits_are_free_of_threads_and_of_probes)
{
    const struct case_kind *kind = &kinds[_i];
    struct ffn_case c = {.d = 200, .f = 700};
    case_rows(&c, 257);
    case_weights(&c, kind);
    real_values(&c);
    case_probes(&c, 1, all_probes);
    case_cpu(&c, 1);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    float *y = keep(&c, c.y, c.rows * c.d), *l1 = keep(&c, c.obs.l1, c.rows);
    uint64_t *fired = own(&c, (size_t)c.f, sizeof *fired);
    memcpy(fired, c.obs.fired, (size_t)c.f * sizeof *fired);
    case_cpu_end(&c);
    for (int threads = 1; threads <= 3; threads++) {
        case_cpu(&c, threads);
        case_probes(&c, threads == 2 ? 6 : 4, all_probes);
        TW_OK_OR_FAIL(case_run(&c), c.err);
        ck_assert_mem_eq(y, c.y, (size_t)(c.rows * c.d) * sizeof *y);
        ck_assert_mem_eq(l1, c.obs.l1, (size_t)c.rows * sizeof *l1);
        ck_assert_mem_eq(fired, c.obs.fired, (size_t)c.f * sizeof *fired);
        if (threads < 3)
            case_cpu_end(&c);
    }
    memset(c.y, 0xff, (size_t)(c.rows * c.d) * sizeof *y);
    TW_OK_OR_FAIL(
        twp_cpu_ffn(&c.cpu, c.y, c.x, c.residual, c.ffn, NULL, NULL, &c.err),
        c.err); // nothing counted at all
    ck_assert_mem_eq(y, c.y, (size_t)(c.rows * c.d) * sizeof *y);
    case_fini(&c);
}
END_TEST

START_TEST(bits_are_free_of_the_batch)
{
    const struct case_kind *kind = &kinds[_i];
    struct ffn_case c = {.d = 200, .f = 700};
    case_rows(&c, 257);
    case_weights(&c, kind);
    real_values(&c);
    case_probes(&c, 4, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    float *y = keep(&c, c.y, c.rows * c.d), *l1 = keep(&c, c.obs.l1, c.rows);
    float *x = c.x, *residual = c.residual;
    int64_t offset[4];
    memcpy(offset, c.offset, sizeof offset);
    for (int s = 0; s < 3; s++) { // each sequence alone
        int64_t first = offset[s];
        c.rows = c.batch.rows = offset[s + 1] - first;
        c.x = x + first * c.d;
        c.residual = residual + first * c.d;
        TW_OK_OR_FAIL(case_run(&c), c.err);
        ck_assert_mem_eq(y + first * c.d, c.y,
                         (size_t)(c.rows * c.d) * sizeof *y);
        ck_assert_mem_eq(l1 + first, c.obs.l1, (size_t)c.rows * sizeof *l1);
    }
    case_fini(&c);
}
END_TEST

/* In place: y may be the residual. */
START_TEST(adds_in_place)
{
    struct ffn_case c = {.d = 64, .f = 300};
    case_rows(&c, 65);
    case_weights(&c, &kinds[_i]);
    case_probes(&c, 1, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    float *y = keep(&c, c.residual, c.rows * c.d);
    TW_OK_OR_FAIL(twp_cpu_ffn(&c.cpu, y, c.x, y, c.ffn, NULL, NULL, &c.err),
                  c.err);
    ck_assert_mem_eq(y, c.y, (size_t)(c.rows * c.d) * sizeof *y);
    case_fini(&c);
}
END_TEST

START_TEST(copies_that_may_not_stay_are_made_again)
{
    struct ffn_case c = {.d = 72, .f = 300};
    case_rows(&c, 65);
    case_weights(&c, &kinds[_i]);
    case_probes(&c, 1, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    ck_assert_int_gt(c.cpu.kept_bytes, 0);
    float *y = keep(&c, c.y, c.rows * c.d);
    case_cpu_end(&c);
    case_cpu(&c, 2);
    c.cpu.keep_bytes = 0;
    for (int i = 0; i < 3; i++) {
        TW_OK_OR_FAIL(case_run(&c), c.err);
        ck_assert_mem_eq(y, c.y, (size_t)(c.rows * c.d) * sizeof *y);
        ck_assert_int_eq(c.cpu.kept_bytes, 0);
        if (i < 2)
            twp_cpu_ffn_layer_end(&c.cpu);
    }
    case_fini(&c);
}
END_TEST

static const struct {
    const char *act;
    bool is_gated;
} smooth[] = {{"silu", true},       {"gelu", true},  {"gelu_tanh", true},
              {"quick_gelu", true}, {"silu", false}, {"gelu", false}};

/* Real values, so close rather than equal. */
START_TEST(smooth_activations_are_close)
{
    setenv("TW_SIMD", simds[_i / COUNT(smooth)], 1);
    struct case_kind kind = kinds[7];
    kind.act = smooth[_i % COUNT(smooth)].act;
    kind.is_gated = smooth[_i % COUNT(smooth)].is_gated;
    kind.shift = 1;
    struct ffn_case c = {.d = 64, .f = 300};
    case_rows(&c, 65);
    case_weights(&c, &kind);
    real_values(&c);
    case_probes(&c, 1, all_probes);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    struct reference ref;
    reference_init(&c, &ref);
    for (int64_t r = 0; r < c.rows; r++) {
        reference_row(&c, r, &ref);
        check_y(&c, r, ref.h);
        int want = 0; // where an exponential fades out, few may be off
        for (int64_t n = 0; n < c.f; n++)
            want += ref.h[n] != 0;
        ck_assert_int_le(abs(want - (int)c.obs.nnz[r]), 3);
    }
    case_fini(&c);
}
END_TEST

START_TEST(activations_follow_their_formulas)
{
    static const char *const names[] = {"relu",      "relu2", "fatrelu:0.5",
                                        "silu",      "gelu",  "gelu_tanh",
                                        "quick_gelu"};
    setenv("TW_SIMD", simds[_i], 1);
    const struct twp_simd *simd = twp_simd_find();
    for (int a = 0; a < COUNT(names); a++) {
        struct tw_activation act;
        struct tw_error err = {0};
        TW_OK_OR_FAIL(tw_activation_parse(names[a], &act, &err), err);
        float v[4096], in[4096];
        for (int i = 0; i < 4096; i++)
            in[i] = v[i] = (float)(i - 2048) / 80;
        in[0] = v[0] = NAN;
        in[1] = v[1] = -0.0f;
        simd->activate(&act, v, NULL, 4096);
        ck_assert(isnan(v[0]) && v[1] == 0);
        for (int i = 2; i < 4096; i++) {
            double want = tw_activation_apply(&act, (double)in[i]);
            // 4 ulp of the result, or of an x that a factor near 0 multiplies
            ck_assert_msg(fabs((double)v[i] - want) <=
                              5e-7 * fabs(want) + 2e-7 * fabs((double)in[i]),
                          "%s(%g) = %.9g, not %.9g", names[a], (double)in[i],
                          (double)v[i], want);
        }
    }
}
END_TEST

START_TEST(what_is_not_finite_is_seen)
{
    struct ffn_case c = {.d = 8, .f = 512};
    one_hot(&c, 160, 0);
    const float bad = _i % 2 ? NAN : INFINITY;
    case_probes(&c, 4, all_probes);
    case_cpu(&c, 2);
    // column 7 of row 47 (sparse) and of row 41 + 2 (routed: x = 3 too)
    c.x[47 * c.d + 7] = bad;
    if (_i >= 2)
        c.x[43 * c.d + 3] = bad;
    TW_OK_OR_FAIL(case_run(&c), c.err);
    ck_assert_int_eq(c.obs.bad_row, _i >= 2 ? 43 : 47);
    ck_assert_int_eq(c.obs.bad_neuron, 0);
    ck_assert(!isfinite(c.y[47 * c.d]));
    ck_assert(isfinite(c.y[46 * c.d]) && isfinite(c.y[48 * c.d]));
    case_fini(&c);
}
END_TEST

START_TEST(ties_go_to_the_lower_number)
{
    static const char *const text[] = {"topk:3", "topp:0.5", "topk:1000",
                                       "topp:1"};
    struct ffn_case c = {.d = 8, .f = 512};
    one_hot(&c, 16, 0);
    for (int64_t n = 0; n < c.f; n++) // all that fire are equal
        for (int k = 0; k < 8; k++)
            c.gate[n * 8 + k] = c.gate[n * 8 + k] > 0 ? 1 : -1;
    memset(c.up, 0, (size_t)(c.f * c.d) * sizeof *c.up);
    for (int64_t i = 0; i < c.f * c.d; i++)
        c.up[i] = i % 2 ? -2 : 2;
    c.desc.gate = store_matrix(&c, c.gate, TW_F32, c.f, c.d);
    c.desc.up = store_matrix(&c, c.up, TW_F32, c.f, c.d);
    case_probes(&c, 4, text);
    case_cpu(&c, 2);
    TW_OK_OR_FAIL(case_run(&c), c.err);
    check_all(&c);
    ck_assert_int_eq(c.obs.nnz[2], 3);
    ck_assert_int_eq(c.obs.nnz[c.rows + 2], 64);
    ck_assert_int_eq(c.obs.nnz[2 * c.rows + 2], 128);
    ck_assert_int_eq(c.obs.nnz[3 * c.rows + 6], 512);
    case_fini(&c);
}
END_TEST

START_TEST(shapes_that_disagree_are_refused)
{
    struct ffn_case c = {.d = 8, .f = 64};
    case_rows(&c, 7);
    case_weights(&c, &kinds[0]);
    case_cpu(&c, 1);
    c.desc.down.rows = 9;
    TW_FAILS_WITH(twp_cpu_ffn_load(&c.cpu, &c.desc, &c.ffn, &c.err),
                  TW_ERR_MISMATCH, "down is 9 x 64, not 8 x 64", c.err);
    c.desc.down.rows = 8;
    c.desc.up.data = NULL;
    TW_FAILS_WITH(twp_cpu_ffn_load(&c.cpu, &c.desc, &c.ffn, &c.err),
                  TW_ERR_MISMATCH, "needs up and down", c.err);
    ck_assert_ptr_null(c.ffn);
    case_fini(&c);
}
END_TEST

START_TEST(no_memory_is_an_error_and_leaks_nothing)
{
    for (int64_t after = 0;; after++) {
        struct ffn_case c = {.d = 8, .f = 512};
        one_hot(&c, 33, 0);
        case_probes(&c, 6, all_probes);
        case_cpu(&c, 2);
        tw_alloc_fail_after(after);
        enum tw_status status = case_run(&c);
        tw_alloc_fail_after(-1);
        if (status != TW_OK)
            ck_assert_int_eq(status, TW_ERR_NOMEM);
        twp_cpu_ffn_layer_end(&c.cpu);
        c.err = (struct tw_error){0};
        TW_OK_OR_FAIL(case_run(&c), c.err); // and works afterwards
        check_all(&c);
        case_fini(&c);
        if (status == TW_OK)
            return;
        ck_assert_int_lt(after, 100);
    }
}
END_TEST

/* The yardstick of `bench ffn` computes the same layer. */
START_TEST(dense_baseline_is_close)
{
    struct ffn_case c = {.d = 72, .f = 300};
    case_rows(&c, 65);
    case_weights(&c, &kinds[_i]);
    case_cpu(&c, 1);
    struct tw_dense_ffn *dense;
    TW_OK_OR_FAIL(tw_dense_ffn_create(&c.desc, 2, c.rows, &dense, &c.err),
                  c.err);
    memset(c.y, 0xff, (size_t)(c.rows * c.d) * sizeof *c.y);
    tw_dense_ffn_run(dense, c.y, c.x, c.residual, c.rows);
    struct reference ref;
    reference_init(&c, &ref);
    for (int64_t r = 0; r < c.rows; r++) {
        reference_row(&c, r, &ref);
        check_y(&c, r, ref.h);
    }
    tw_dense_ffn_destroy(dense);
    case_fini(&c);
}
END_TEST

START_TEST(dense_baseline_without_memory_fails_cleanly)
{
    struct ffn_case c = {.d = 72, .f = 300};
    case_rows(&c, 7);
    case_weights(&c, &kinds[0]);
    case_cpu(&c, 1);
    struct tw_dense_ffn *dense;
    enum tw_status status = TW_ERR_NOMEM;
    for (int64_t after = 0; status != TW_OK; after++) {
        tw_alloc_fail_after(after);
        status = tw_dense_ffn_create(&c.desc, 2, c.rows, &dense, &c.err);
        tw_alloc_fail_after(-1);
        if (status != TW_OK)
            ck_assert_int_eq(status, TW_ERR_NOMEM);
    }
    tw_dense_ffn_destroy(dense);
    case_fini(&c);
}
END_TEST

/* Rows past the last are neither read nor written. */
START_TEST(block_product_pads_short_blocks)
{
    static const int row_counts[] = {1, 63, 64};
    enum { K = 24, N = 20, LDC = 23 };
    int rows = row_counts[_i];
    struct ffn_case c = {.d = K};
    float *a = integers(&c, TWP_BLOCK * K, 3, 1, 1);
    float *b = integers(&c, N * K, 3, 1, 2);
    float *out = own(&c, TWP_BLOCK * LDC, sizeof *out);
    float *pad = own(&c, TWP_BLOCK * K, sizeof *pad);
    float *spare = own(&c, TWP_BLOCK * N, sizeof *spare);
    memset(a + rows * K, 0xff, (size_t)((TWP_BLOCK - rows) * K) * sizeof *a);
    memset(out, 0xff, TWP_BLOCK * LDC * sizeof *out);
    memset(pad, 0xff, TWP_BLOCK * K * sizeof *pad);
    twp_block_product(out, LDC, a, K, rows, b, N, K, pad, spare);
    for (int r = 0; r < TWP_BLOCK; r++)
        for (int n = 0; n < N; n++)
            if (r < rows)
                ck_assert(out[r * LDC + n] ==
                          reference_dot(a + r * K, b + n * K, K, NULL));
            else
                ck_assert(isnan(out[r * LDC + n]));
    for (int i = 0; i < c.owned_count; i++)
        tw_free(c.owned[i]);
}
END_TEST

static Suite *ffn_suite(void)
{
    Suite *suite = suite_create("ffn");
    TCase *core = tcase_create("Core");
    tcase_set_timeout(core, 120);
    tcase_add_loop_test(core, equals_the_reference, 0,
                        COUNT(shapes) * COUNT(kinds) * COUNT(simds));
    tcase_add_loop_test(core, applies_a_definition, 0,
                        COUNT(applied) * COUNT(kinds));
    tcase_add_loop_test(core, routes_rows_that_overflow_and_no_others, 0,
                        COUNT(hot_kinds));
    tcase_add_loop_test(core, bits_are_free_of_threads_and_of_probes, 0,
                        COUNT(kinds));
    tcase_add_loop_test(core, bits_are_free_of_the_batch, 0, COUNT(kinds));
    tcase_add_loop_test(core, adds_in_place, 0, COUNT(kinds));
    tcase_add_loop_test(core, copies_that_may_not_stay_are_made_again, 0,
                        COUNT(kinds));
    tcase_add_loop_test(core, smooth_activations_are_close, 0,
                        COUNT(smooth) * COUNT(simds));
    tcase_add_loop_test(core, activations_follow_their_formulas, 0,
                        COUNT(simds));
    tcase_add_loop_test(core, dense_baseline_is_close, 0, COUNT(kinds));
    tcase_add_loop_test(core, block_product_pads_short_blocks, 0, 3);
    suite_add_tcase(suite, core);
    TCase *limits = tcase_create("Limits");
    tcase_set_timeout(limits, 120);
    tcase_add_loop_test(limits, what_is_not_finite_is_seen, 0, 4);
    tcase_add_test(limits, ties_go_to_the_lower_number);
    suite_add_tcase(suite, limits);
    TCase *errors = tcase_create("Errors");
    tcase_add_test(errors, shapes_that_disagree_are_refused);
    tcase_add_test(errors, no_memory_is_an_error_and_leaks_nothing);
    tcase_add_test(errors, dense_baseline_without_memory_fails_cleanly);
    suite_add_tcase(suite, errors);
    return suite;
}

int main(void)
{
    return tw_run_suite(ffn_suite());
}
