/* The cuda backend's dense path against the reference row: every activation,
 * gated and plain, in bf16 and fp16, under several definitions at once and with
 * one applied; what fp16 can't hold; the accuracy of the activations; a row's
 * bits free of its place and of what is counted. */
#include <config.h>

#include "tests/cuda_check.h"

static const struct {
    int64_t rows, f, d;
} shapes[] = {
    {1, 8, 8},       {17, 256, 64},   {127, 257, 72}, {128, 128, 9},
    {129, 512, 8},   {255, 33, 264},  {257, 600, 40}, {385, 65, 136},
    {33, 700, 1032}, {200, 1111, 33},
};

static const struct {
    const char *act;
    bool is_gated, has_bias;
} kinds[] = {
    {"silu", true, false},        {"silu", false, true},
    {"gelu", true, true},         {"gelu", false, false},
    {"gelu_tanh", true, true},    {"gelu_tanh", false, true},
    {"quick_gelu", true, false},  {"quick_gelu", false, true},
    {"relu", true, true},         {"relu2", true, false},
    {"fatrelu:0.7", false, true}, {"relu", false, false},
};

/* What is counted and applied; thresholds that no value comes near to. */
static const struct {
    const char *defs[5], *apply;
} wishes[] = {
    {{"hidden", "gate"}, NULL},
    {{"abs:0.30517", "gate"}, NULL},
    {{"gate", "hidden", "abs:0.1357", "gate-abs:0.2113"}, NULL},
    {{"gate-abs:0.5123", "gate-abs:0.0977", "abs:1.0173"}, NULL},
    {{"hidden", "gate", "gate-abs:0.2113"}, "gate-abs:0.2113"},
    {{"gate", "abs:0.2113", "gate-abs:0.0977"}, "abs:0.3071"},
    {{"gate-abs:0.4113", "hidden", "gate"}, "hidden"},
    {{"hidden"}, NULL},
};

#define SMALL  3 /* of them are */
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define KINDS  (sizeof kinds / sizeof kinds[0])
#define WISHES (sizeof wishes / sizeof wishes[0])

static struct cuda_case dense_case(size_t shape, size_t kind, size_t wish)
{
    struct cuda_case c = {.rows = shapes[shape].rows,
                          .f = shapes[shape].f,
                          .d = shapes[shape].d,
                          .act = kinds[kind].act,
                          .is_gated = kinds[kind].is_gated,
                          .has_bias = kinds[kind].has_bias,
                          .row_limit = -1,
                          .path = TW_FFN_DENSE,
                          .small = small_for(shapes[shape].d),
                          .apply = wishes[wish].apply};
    memcpy(c.defs, wishes[wish].defs, sizeof wishes[wish].defs);
    return c;
}

/* Each shape and kind with a type and two wishes. */
START_TEST(dense_equals_the_reference)
{
    if (is_left_out(_i, 29))
        return;
    size_t i = (size_t)_i, shape = i / KINDS, kind = i % KINDS;
    for (size_t n = 0; n < 2; n++) {
        struct cuda_case c =
            dense_case(shape, kind, (i + shape + 3 * n) % WISHES);
        c.type = (i + n + shape) % 2 ? TW_F16 : TW_BF16;
        c.has_residual = (i + n) % 3 != 0;
        c.skip_every = (i + n) % 2 ? 5 : 0;
        case_make(&c);
        check_all(&c);
        case_fini(&c);
    }
}
END_TEST

/* Every wish with both types, gated and plain, a smooth and a sparse one. */
START_TEST(every_definition_equals_the_reference)
{
    if (is_left_out(_i, 23))
        return;
    static const size_t some[] = {0, 1, 8, 11};
    size_t i = (size_t)_i;
    struct cuda_case c = dense_case(6, some[i / 2 % 4], i / 8);
    c.type = i % 2 ? TW_F16 : TW_BF16;
    c.skip_every = 7;
    case_make(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

/* No up value is 0, so h is 0 where act(gate) is; but for one row in the second
 * case, whose tiles then differ from the others. */
START_TEST(hidden_is_the_pattern_or_not)
{
    struct cuda_case c = {.rows = 300,
                          .d = 40,
                          .f = 700,
                          .act = _i % 2 ? "relu" : "silu",
                          .is_gated = true,
                          .has_bias = true,
                          .row_limit = -1,
                          .path = TW_FFN_DENSE,
                          .skip_every = 3};
    case_make(&c);
    for (int64_t n = 0; n < c.f; n++) {
        c.up_bias[n] = 0.5f;
        c.gate_bias[n] = 1;
    }
    if (_i / 2) {
        memset(c.x + 200 * c.d, 0, (size_t)c.d * sizeof *c.x);
        c.up_bias[301] = 0;
    }
    scale_all(c.gate, c.f * c.d, 0.125f);
    check_all(&c);
    ck_assert_int_eq(c.obs.nnz[200] != c.obs.nnz[c.rows + 200], _i / 2);
    case_fini(&c);
}
END_TEST

/* ---- the activations' accuracy ---- */

#define ACT_BOUND 2e-6 /* relative */

static const struct {
    const char *act;
    float from;
} ends[] = {
    {"silu", -85}, {"gelu", -12.5f}, {"gelu_tanh", -9.5f}, {"quick_gelu", -50}};

/* A plain layer of one neuron whose argument is a sum of three bf16 numbers, so
 * any float; l1 is its value in fp32. */
START_TEST(activations_are_accurate)
{
    if (is_left_out(_i, 4))
        return;
    struct cuda_case c = {.rows = 20000,
                          .d = 8,
                          .f = 1,
                          .act = ends[_i].act,
                          .row_limit = -1,
                          .path = TW_FFN_DENSE};
    case_make(&c);
    float *in = own(&c, (size_t)c.rows, sizeof *in);
    for (int64_t i = 0; i < c.d; i++)
        c.up[i] = i < 3;
    uint32_t seed = 3;
    for (int64_t r = 0; r < c.rows; r++) {
        float left = ends[_i].from +
                     (14 - ends[_i].from) * (float)case_random(&seed) / 0x1p24f;
        left = r % 4 == 0 ? left / 64 : left;
        in[r] = left;
        memset(c.x + r * c.d, 0, (size_t)c.d * sizeof *c.x);
        for (int i = 0; i < 3; i++) {
            c.x[r * c.d + i] = tw_bf16_to_f32(twp_bf16_of(left));
            left -= c.x[r * c.d + i];
        }
        ck_assert(left == 0);
    }
    case_run(&c);
    double worst = 0;
    for (int64_t r = 0; r < c.rows; r++) {
        double want =
            fabs(tw_activation_apply(&c.desc.activation, (double)in[r]));
        double far = fabs((double)c.obs.l1[r] - want);
        worst = far > worst * want ? far / want : worst;
        ck_assert_msg(far <= ACT_BOUND * want, "%s(%.9g) = %.9g, not %.9g",
                      c.act, (double)in[r], (double)c.obs.l1[r], want);
    }
    printf("%s: within %.2g\n", c.act, worst);
    case_fini(&c);
}
END_TEST

/* Arguments far out give 0 or themselves, never NaN. */
START_TEST(activations_far_out)
{
    static const float far_out[] = {-1e30f, -1e4f, -500, 500, 1e4f, 1e30f};
    struct cuda_case c = {.rows = 6,
                          .d = 8,
                          .f = 1,
                          .act = ends[_i].act,
                          .row_limit = -1,
                          .path = TW_FFN_DENSE};
    case_make(&c);
    memset(c.x, 0, (size_t)(c.rows * c.d) * sizeof *c.x);
    for (int64_t i = 0; i < c.d; i++)
        c.up[i] = i == 0;
    for (int r = 0; r < 6; r++)
        c.x[r * c.d] = tw_bf16_to_f32(twp_bf16_of(far_out[r]));
    case_run(&c);
    for (int r = 0; r < 6; r++)
        ck_assert_msg(c.obs.l1[r] == (r < 3 ? 0 : c.x[r * c.d]), "%s(%g): %g",
                      c.act, (double)c.x[r * c.d], (double)c.obs.l1[r]);
    ck_assert_int_eq(c.obs.bad_row, -1);
    case_fini(&c);
}
END_TEST

/* ---- what 16 bits can't hold ---- */

/* h = a u is beyond fp16's numbers in one place, below them in another. */
START_TEST(fp16_overflow_is_bad_underflow_counts)
{
    struct cuda_case c = {.rows = 140,
                          .d = 8,
                          .f = 300,
                          .act = _i % 2 ? "silu" : "relu",
                          .is_gated = true,
                          .row_limit = -1,
                          .path = TW_FFN_DENSE,
                          .type = _i / 2 ? TW_F16 : TW_BF16};
    case_make(&c);
    memset(c.x, 0, (size_t)(c.rows * c.d) * sizeof *c.x);
    for (int64_t i = 0; i < c.f * c.d; i++)
        c.gate[i] = c.up[i] = i % c.d == i / c.d % c.d;
    c.x[5 * c.d + 1] = 0x1p-14f;
    c.x[133 * c.d + 3] = 512;
    case_refer(&c);
    case_run(&c);
    check_obs_but_bad(&c);
    bool is_bad = c.type == TW_F16;
    ck_assert_int_eq(c.obs.bad_row, is_bad ? 133 : -1);
    ck_assert_int_eq(c.obs.bad_neuron, is_bad ? 3 : -1);
    ck_assert_int_eq(c.obs.nnz[5], (c.f + c.d - 2) / c.d);
    case_fini(&c);
}
END_TEST

START_TEST(odd_values)
{
    if (is_left_out(_i, 23))
        return;
    struct cuda_case c = dense_case(6, (size_t)_i % KINDS, 0);
    c.type = (size_t)_i / KINDS ? TW_F16 : TW_BF16;
    c.skip_every = 3;
    case_make(&c);
    for (int64_t i = 0; i < c.d; i++)
        c.x[3 * c.d + i] = -0.0f;
    c.x[77 * c.d + 5] = NAN;
    c.x[200 * c.d + 6] = INFINITY;
    case_run(&c);
    ck_assert_int_eq(c.obs.bad_row, 77);
    ck_assert_int_eq(c.obs.bad_neuron, 0);
    for (int64_t i = 0; i < c.d; i++)
        ck_assert(isnan(c.y[77 * c.d + i]));
    ck_assert_int_eq(c.obs.nnz[3], c.has_bias ? c.obs.nnz[3] : 0);
    ck_assert(isfinite(c.obs.l1[76]) && isfinite(c.obs.l1[78]));
    case_fini(&c);
}
END_TEST

/* ---- one row, one result ---- */

/* Numbers that round in every sum. */
static void roughen(struct cuda_case *c)
{
    uint32_t seed = 77;
    float *v[] = {c->x, c->gate, c->up, c->down};
    int64_t n[] = {c->rows * c->d, c->f * c->d, c->f * c->d, c->f * c->d};
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < n[k]; i++)
            v[k][i] += (float)(case_random(&seed) % 512) / 4096 - 0.0625f;
}

static struct cuda_case rough_case(int i)
{
    struct cuda_case c = dense_case(6, (size_t)i % KINDS, 0);
    c.rows = 517;
    c.type = (size_t)i / KINDS ? TW_F16 : TW_BF16;
    c.has_residual = true;
    return c;
}

/* Whatever is counted, and if nothing is. */
START_TEST(runs_are_equal_whatever_is_counted)
{
    if (is_left_out(_i, 23))
        return;
    struct cuda_case c = rough_case(_i);
    case_make(&c);
    roughen(&c);
    size_t n = (size_t)(c.rows * c.d);
    case_run(&c);
    uint16_t *first = own(&c, n, 2);
    float *l1 = own(&c, (size_t)c.rows, sizeof *l1);
    memcpy(first, c.y_bits, n * 2);
    memcpy(l1, c.obs.l1, (size_t)c.rows * sizeof *l1);
    for (int run = 0; run < REPEATED; run++) {
        c.is_off = run % 4 == 3;
        c.is_captured = run % 3 == 2;
        TW_OK_OR_FAIL(tw_active_parse(run % 2 ? "abs:0.1" : "gate-abs:0.2",
                                      &c.active[1], &c.err),
                      c.err);
        case_run(&c);
        ck_assert_mem_eq(first, c.y_bits, n * 2);
        ck_assert_mem_eq(l1, c.obs.l1, (size_t)c.rows * sizeof *l1);
    }
    case_fini(&c);
}
END_TEST

START_TEST(a_row_is_free_of_its_place)
{
    if (is_left_out(_i, 23))
        return;
    struct cuda_case c = rough_case(_i), other = rough_case(_i);
    other.rows = 211;
    case_make(&c);
    case_make(&other);
    roughen(&c);
    int64_t d = c.d;
    for (int64_t r = 0; r < other.rows; r++) {
        int64_t from = (r * 37 + 11) % c.rows;
        memcpy(other.x + r * d, c.x + from * d, (size_t)d * sizeof *c.x);
        memcpy(other.residual + r * d, c.residual + from * d,
               (size_t)d * sizeof *c.x);
    }
    memcpy(other.gate, c.gate, (size_t)(c.f * d) * sizeof *c.gate);
    memcpy(other.up, c.up, (size_t)(c.f * d) * sizeof *c.up);
    memcpy(other.down, c.down, (size_t)(c.f * d) * sizeof *c.down);
    case_run(&c);
    case_run(&other);
    for (int64_t r = 0; r < other.rows; r++) {
        int64_t from = (r * 37 + 11) % c.rows;
        ck_assert_mem_eq(other.y_bits + r * d, c.y_bits + from * d,
                         (size_t)d * 2);
        ck_assert_mem_eq(other.obs.l1 + r, c.obs.l1 + from, 4);
        ck_assert_int_eq(other.obs.nnz[r], c.obs.nnz[from]);
    }
    case_fini(&c);
    case_fini(&other);
}
END_TEST

START_TEST(what_is_too_many_is_left_to_the_second_pass)
{
    static const char *const names[] = {"abs:1", "topk:2", "abs:2", "abs:1",
                                        "abs:3", "abs:4",  "abs:5", "hidden"};
    struct tw_active active[8];
    struct tw_error err = {0};
    for (int i = 0; i < 8; i++)
        TW_OK_OR_FAIL(tw_active_parse(names[i], &active[i], &err), err);
    struct twp_counts counts = {0};
    twp_counts_defs(&(struct tw_probes){8, active}, &counts);
    ck_assert_int_eq(counts.defs, 4);
    ck_assert(counts.def[3].kind == TW_ACTIVE_ABS &&
              counts.def[3].threshold == 4);
}
END_TEST

static Suite *dense_suite(const char *path)
{
    Suite *suite = suite_create(path);
    TCase *tc = tcase_create("small"); // also for compute-sanitizer
    tcase_add_loop_test(tc, dense_equals_the_reference, 0, SMALL * KINDS);
    suite_add_tcase(suite, tc);
    tc = tcase_create("grid");
    tcase_add_loop_test(tc, dense_equals_the_reference, SMALL * KINDS,
                        SHAPES * KINDS);
    tcase_add_loop_test(tc, every_definition_equals_the_reference, 0,
                        8 * WISHES);
    suite_add_tcase(suite, tc);
    tc = tcase_create("values");
    tcase_add_loop_test(tc, hidden_is_the_pattern_or_not, 0, 4);
    tcase_add_loop_test(tc, activations_are_accurate, 0, 4);
    tcase_add_loop_test(tc, activations_far_out, 0, 4);
    tcase_add_loop_test(tc, fp16_overflow_is_bad_underflow_counts, 0, 4);
    tcase_add_loop_test(tc, odd_values, 0, 2 * KINDS);
    suite_add_tcase(suite, tc);
    tc = tcase_create("same");
    tcase_add_loop_test(tc, runs_are_equal_whatever_is_counted, 0, 2 * KINDS);
    tcase_add_loop_test(tc, a_row_is_free_of_its_place, 0, 2 * KINDS);
    tcase_add_test(tc, what_is_too_many_is_left_to_the_second_pass);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return cuda_main(dense_suite);
}
