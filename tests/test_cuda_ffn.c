/* The cuda backend's feed-forward kernels against the reference row: counts and
 * patterns equal, values close; right at every density; a row's bits free of
 * its place, of the other rows and of what is counted. See
 * cuda_check.h. */
#include <config.h>

#include "tests/cuda_check.h"

/* ---- a grid of shapes, densities, kinds ---- */

static const struct {
    int64_t rows, f, d;
} shapes[] = {
    {1, 8, 8},      {2, 200, 16},   {17, 256, 64},  {127, 257, 72},
    {128, 264, 64}, {129, 512, 8},  {255, 33, 264}, {256, 256, 256},
    {257, 600, 40}, {300, 130, 88}, {385, 65, 136}, {33, 1100, 1032},
    {5, 3000, 24},  {64, 40, 2312}, {3, 9, 4616},   {130, 300, 9},
    {77, 129, 65},  {9, 520, 1001},
};

static const struct {
    const char *act;
    bool is_gated, has_bias;
    float shift; /* in standard deviations of the gate */
} kinds[] = {
    {"relu", true, false, 0},      {"relu", true, true, 2.2f},
    {"relu2", true, true, 1},      {"fatrelu:3.5", true, true, 1},
    {"relu", false, true, 1},      {"relu2", false, false, 0},
    {"relu", true, true, 100},     {"relu", true, true, -9},
    {"fatrelu:2", false, true, 0},
};

#define KINDS  (sizeof kinds / sizeof kinds[0])
#define SHAPES (sizeof shapes / sizeof shapes[0])

static struct cuda_case grid_case(size_t i)
{
    size_t s = i / KINDS, k = i % KINDS;
    struct cuda_case c = {.rows = shapes[s].rows,
                          .f = shapes[s].f,
                          .d = shapes[s].d,
                          .act = kinds[k].act,
                          .is_gated = kinds[k].is_gated,
                          .has_bias = kinds[k].has_bias,
                          .row_limit = -1,
                          .has_residual = i % 3 != 0,
                          .type = i % 4 == 1 ? TW_F16 : TW_BF16,
                          .small = i % 4 == 1 ? small_for(shapes[s].d) : 0,
                          .skip_every = i % 2 ? 5 : 0};
    c.shift = floorf(kinds[k].shift * sqrtf((float)(2 * c.d)));
    return c;
}

START_TEST(sparse_equals_the_reference)
{
    if (is_left_out(_i, 37))
        return;
    struct cuda_case c = grid_case((size_t)_i);
    case_make(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

START_TEST(dense_equals_the_reference)
{
    if (is_left_out(_i, 41))
        return;
    struct cuda_case c = grid_case((size_t)_i);
    c.path = TW_FFN_DENSE;
    case_make(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

/* ---- slots and routes ---- */

/* Row r has exactly r active neurons in each tile. */
static void make_staircase(struct cuda_case *c)
{
    case_make(c);
    memset(c->x, 0, (size_t)(c->rows * c->d) * sizeof *c->x);
    for (int64_t r = 0; r < c->rows; r++)
        c->x[r * c->d + r % c->d] = 1;
    for (int64_t n = 0; n < c->f; n++)
        for (int64_t i = 0; i < c->d; i++)
            c->gate[n * c->d + i] = n * 7 % 256 < i ? 3 : -1;
}

static const int slots_tried[] = {1, 2, 7, 8, 31, 32, 63, 64, 255, 256};

START_TEST(every_count_with_slots)
{
    if (is_left_out(_i, 9))
        return;
    struct cuda_case c = {.rows = 257,
                          .d = 264,
                          .f = 512,
                          .act = "relu",
                          .is_gated = true,
                          .has_residual = true,
                          .row_limit = -1,
                          .slots = slots_tried[_i],
                          .skip_every = 3};
    make_staircase(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

static const int limits_tried[] = {0, 1, 100, 101, 512, INT32_MAX};

START_TEST(row_limit_routes)
{
    if (is_left_out(_i, 7))
        return;
    struct cuda_case c = {.rows = 257,
                          .d = 264,
                          .f = 512,
                          .act = "relu",
                          .is_gated = true,
                          .row_limit = limits_tried[_i],
                          .slots = 256};
    make_staircase(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

START_TEST(every_variant_of_unpack)
{
    if (is_left_out(_i, 5))
        return;
    struct cuda_case c = {.rows = 130,
                          .d = 1000,
                          .f = 900,
                          .act = "relu",
                          .is_gated = _i % 2,
                          .has_bias = true,
                          .shift = 60,
                          .row_limit = -1,
                          .variant = _i / 2,
                          .has_residual = true};
    case_make(&c);
    check_all(&c);
    case_fini(&c);
}
END_TEST

/* ---- values that aren't finite, and zeros of both signs ---- */

START_TEST(odd_values)
{
    if (is_left_out(_i, 5))
        return;
    bool is_gated = _i % 2, is_dense = _i / 2 % 2;
    struct cuda_case c = {.rows = 140,
                          .d = 72,
                          .f = 300,
                          .act = "relu",
                          .is_gated = is_gated,
                          .row_limit = -1,
                          .shift = 20,
                          .has_bias = _i / 4 % 2,
                          .path = is_dense ? TW_FFN_DENSE : TW_FFN_TWELL,
                          .skip_every = 4};
    case_make(&c);
    for (int64_t i = 0; i < c.d; i++) {
        c.x[3 * c.d + i] = -0.0f;
        c.x[4 * c.d + i] = 0.0f;
    }
    // an inactive neuron's h is 0 whatever its up value is, where the reference
    // has 0 times Inf: let rows with Inf fire everywhere
    for (int64_t n = 0; n < c.f && is_gated; n++) {
        c.gate[n * c.d + 6] = 1;
        c.gate[n * c.d + 71] = -1;
    }
    c.x[77 * c.d + 5] = NAN;
    c.x[78 * c.d + 6] = INFINITY;
    c.x[139 * c.d + 71] = -INFINITY;
    check_all(&c);
    ck_assert_int_eq(c.obs.bad_row, 77);
    case_fini(&c);
}
END_TEST

/* ---- one row, one result ---- */

static struct cuda_case mixed_case(int i)
{
    return (struct cuda_case){.rows = 517,
                              .d = 200,
                              .f = 700,
                              .act = "relu",
                              .is_gated = i % 2,
                              .has_bias = true,
                              .shift = 15,
                              .row_limit = i % 2 ? 130 : 45,
                              .slots = 64,
                              .path = i / 2 ? TW_FFN_DENSE : TW_FFN_TWELL,
                              .has_residual = true};
}

/* Turns the integers into what rounds in every sum. */
static void roughen(struct cuda_case *c)
{
    uint32_t seed = 77;
    float *v[] = {c->x, c->up, c->down};
    int64_t n[] = {c->rows * c->d, c->f * c->d, c->f * c->d};
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < n[k]; i++)
            v[k][i] += (float)(case_random(&seed) % 512) / 512 - 0.5f;
    for (int64_t i = 0; i < n[0]; i++) // what bf16 holds
        c->x[i] = tw_bf16_to_f32(twp_bf16_of(c->x[i]));
}

START_TEST(runs_are_equal_counted_or_not)
{
    if (is_left_out(_i, 4))
        return;
    struct cuda_case c = mixed_case(_i);
    case_make(&c);
    roughen(&c);
    size_t n = (size_t)(c.rows * c.d);
    case_run(&c);
    ck_assert(_i >= 2 ||
              (c.obs.dense_rows > 0 && c.obs.dense_rows < (uint64_t)c.rows));
    uint16_t *first = own(&c, n, 2);
    float *l1 = own(&c, (size_t)c.rows, sizeof *l1);
    memcpy(first, c.y_bits, n * 2);
    memcpy(l1, c.obs.l1, (size_t)c.rows * sizeof *l1);
    for (int run = 0; run < REPEATED; run++) {
        c.is_off = run % 4 == 3;
        c.is_captured = run % 3 == 2;
        case_run(&c);
        ck_assert_mem_eq(first, c.y_bits, n * 2);
        ck_assert_mem_eq(l1, c.obs.l1, (size_t)c.rows * sizeof *l1);
    }
    case_fini(&c);
}
END_TEST

START_TEST(a_row_is_free_of_its_place)
{
    if (is_left_out(_i, 4))
        return;
    struct cuda_case c = mixed_case(_i), other = mixed_case(_i);
    other.rows = 211;
    case_make(&c);
    case_make(&other);
    roughen(&c);
    roughen(&other);
    size_t bytes = (size_t)c.d * sizeof *c.x;
    for (int64_t r = 0; r < other.rows; r++) {
        int64_t from = (r * 37 + 11) % c.rows;
        memcpy(other.x + r * c.d, c.x + from * c.d, bytes);
        memcpy(other.residual + r * c.d, c.residual + from * c.d, bytes);
    }
    int64_t n = c.f * c.d;
    memcpy(other.up, c.up, (size_t)n * sizeof *c.up);
    memcpy(other.down, c.down, (size_t)n * sizeof *c.down);
    case_run(&c);
    case_run(&other);
    for (int64_t r = 0; r < other.rows; r++) {
        int64_t from = (r * 37 + 11) % c.rows;
        ck_assert_mem_eq(other.y_bits + r * c.d, c.y_bits + from * c.d,
                         (size_t)c.d * 2);
        ck_assert_mem_eq(other.obs.l1 + r, c.obs.l1 + from, 4);
        ck_assert_int_eq(other.obs.nnz[r], c.obs.nnz[from]);
    }
    case_fini(&c);
    case_fini(&other);
}
END_TEST

/* Few routed rows take another kernel than many: the same bits. */
START_TEST(few_and_many_routed_rows_are_equal)
{
    if (is_left_out(_i, 7))
        return;
    struct cuda_case c = {.rows = 1100,
                          .d = 264,
                          .f = 700,
                          .act = "relu",
                          .is_gated = _i % 2,
                          .has_bias = true,
                          .shift = 15,
                          .row_limit = 0,
                          .slots = 256,
                          .type = _i / 2 ? TW_F16 : TW_BF16,
                          .has_residual = true};
    struct cuda_case other = c;
    case_make(&c);
    case_make(&other);
    roughen(&c);
    roughen(&other);
    case_run(&c); // all are routed
    ck_assert_int_gt(c.obs.dense_rows, TWP_THIN_ROWS);
    int64_t gate = c.rows; // the second definition
    uint32_t high = 0, low = UINT32_MAX;
    for (int64_t r = 0; r < c.rows; r++) {
        high = c.obs.nnz[gate + r] > high ? c.obs.nnz[gate + r] : high;
        low = c.obs.nnz[gate + r] < low ? c.obs.nnz[gate + r] : low;
    }
    for (uint32_t limit = low; limit <= high; limit += (high - low) / 7 + 1) {
        other.row_limit = (int)limit;
        case_run(&other);
        for (int64_t r = 0; r < c.rows; r++) {
            if (c.obs.nnz[gate + r] <= limit)
                continue;
            ck_assert_mem_eq(other.y_bits + r * c.d, c.y_bits + r * c.d,
                             (size_t)c.d * 2);
            ck_assert_mem_eq(other.obs.l1 + r, c.obs.l1 + r, 4);
        }
    }
    case_fini(&c);
    case_fini(&other);
}
END_TEST

/* ---- gate-abs applied: any activation packs ---- */

static const char *const applied_acts[] = {"silu", "gelu",       "gelu_tanh",
                                           "relu", "silu",       "quick_gelu",
                                           "gelu", "fatrelu:0.5"};

START_TEST(applied_equals_the_reference)
{
    if (is_left_out(_i, 4))
        return;
    struct cuda_case c = {
        .rows = 150 + 40 * _i,
        .d = 64,
        .f = 600,
        .act = applied_acts[_i],
        .is_gated = _i != 4,
        .has_bias = true,
        .shift = 25,
        .row_limit = _i % 3 ? 8 : -1,
        .type = _i % 3 == 1 ? TW_F16 : TW_BF16,
        .small = 0.5f,
        .apply = "gate-abs:0.2113",
        .defs = {"hidden", "gate", "gate-abs:0.2113", "gate-abs:0.5123"},
        .skip_every = 6,
        .has_residual = true};
    case_make(&c);
    case_run(&c);
    case_refer(&c);
    check_obs(&c);
    check_y(&c);
    ck_assert_int_lt(c.obs.dense_rows, (uint64_t)c.rows);
    // what the packing would leave out is counted: by the dense path
    struct cuda_case lower = c;
    lower.owned_count = 0;
    lower.count = NULL;
    lower.defs[2] = "gate-abs:0.0977";
    case_make(&lower);
    case_run(&lower);
    case_refer(&lower);
    check_obs(&lower);
    ck_assert_int_eq(lower.obs.dense_rows, (uint64_t)c.rows);
    case_fini(&lower);
    case_fini(&c);
}
END_TEST

/* ---- plans ---- */

static struct tw_ffn_plan plan_for(const struct tw_ffn *ffn, uint32_t nnz,
                                   struct tw_error *err)
{
    uint32_t rows[TW_PLAN_ROWS];
    for (int r = 0; r < TW_PLAN_ROWS; r++)
        rows[r] = nnz;
    const struct tw_ffn_seen seen = {TW_PLAN_ROWS, 0, rows};
    struct tw_ffn_plan plan;
    TW_OK_OR_FAIL(twp_cuda_plan(NULL, ffn, &seen, &plan, err), *err);
    return plan;
}

START_TEST(plans_are_made_and_used)
{
    struct cuda_case c = {.rows = 1,
                          .d = 256,
                          .f = 5632,
                          .act = "relu",
                          .is_gated = true,
                          .row_limit = -1};
    case_make(&c);
    struct tw_ffn *ffn = NULL;
    TW_OK_OR_FAIL(twp_ffn_create(&c.desc, TW_BF16, &ffn, &c.err), c.err);
    struct tw_ffn_plan few = plan_for(ffn, 20, &c.err);
    struct tw_ffn_plan many = plan_for(ffn, 900, &c.err);
    ck_assert_int_eq(few.path, TW_FFN_TWELL);
    ck_assert_int_gt(few.row_limit, 39);
    ck_assert_int_eq(many.path, TW_FFN_DENSE);
    TW_OK_OR_FAIL(twp_cuda_plan_use(NULL, ffn, &many, &c.err), c.err);
    ck_assert(ffn->is_dense);
    TW_OK_OR_FAIL(twp_cuda_plan_use(NULL, ffn, &few, &c.err), c.err);
    ck_assert(!ffn->is_dense);
    ck_assert_int_eq(ffn->row_limit, few.row_limit);
    twp_ffn_destroy(ffn);
    TW_OK_OR_FAIL(tw_activation_parse("silu", &c.desc.activation, &c.err),
                  c.err);
    TW_OK_OR_FAIL(twp_ffn_create(&c.desc, TW_BF16, &ffn, &c.err), c.err);
    ck_assert_int_eq(plan_for(ffn, 0, &c.err).path, TW_FFN_DENSE);
    TW_FAILS_WITH(twp_cuda_plan_use(NULL, ffn, &few, &c.err), TW_ERR_MISMATCH,
                  "'twell'", c.err);
    twp_ffn_destroy(ffn);
    case_fini(&c);
}
END_TEST

/* ---- the paper's layer ---- */

/* Rows of a big layer, each the same as alone in a small batch that the
 * reference can do. */
START_TEST(big_layer_equals_its_rows_alone)
{
    if (is_left_out(_i + 500, 1000))
        return;
    struct cuda_case c = {.rows = 4101,
                          .d = 2048,
                          .f = 5632,
                          .act = "relu",
                          .is_gated = true,
                          .has_bias = true,
                          .shift = 130,
                          .row_limit = 150,
                          .slots = 16,
                          .has_residual = true,
                          .path = _i ? TW_FFN_DENSE : TW_FFN_TWELL};
    struct cuda_case few = c;
    few.rows = 6;
    case_make(&c);
    case_make(&few);
    size_t bytes = (size_t)c.d * sizeof *c.x;
    for (int64_t r = 0; r < few.rows; r++) {
        int64_t from = r * 820;
        memcpy(few.x + r * c.d, c.x + from * c.d, bytes);
        memcpy(few.residual + r * c.d, c.residual + from * c.d, bytes);
    }
    check_all(&few);
    case_run(&c);
    for (int64_t r = 0; r < few.rows; r++) {
        int64_t from = r * 820;
        ck_assert_mem_eq(few.y_bits + r * c.d, c.y_bits + from * c.d,
                         (size_t)c.d * 2);
        ck_assert_int_eq(few.obs.nnz[r], c.obs.nnz[from]);
        ck_assert_mem_eq(few.obs.l1 + r, c.obs.l1 + from, 4);
    }
    uint64_t nnz = 0, fired = 0, tiles = 0;
    for (int64_t r = 0; r < c.rows; r++)
        nnz += c.obs.nnz[c.rows + r];
    for (int64_t n = 0; n < c.f; n++)
        fired += c.obs.fired[c.f + n];
    for (uint64_t i = 0; i <= 256; i++)
        tiles += i * c.obs.tiles[2][i];
    ck_assert_int_eq(nnz, fired);
    ck_assert_int_eq(nnz, tiles);
    case_fini(&c);
    case_fini(&few);
}
END_TEST

/* ---- the table's row ---- */

START_TEST(ops_row_equals_the_reference)
{
    extern const struct tw_ops tw_ops_cuda;
    const struct tw_ops *ops = &tw_ops_cuda;
    struct cuda_case c = {.rows = 150,
                          .d = 64,
                          .f = 500,
                          .act = "relu",
                          .is_gated = true,
                          .has_bias = true,
                          .shift = 10,
                          .row_limit = -1,
                          .has_residual = true,
                          .skip_every = 7};
    case_make(&c);
    int64_t offset[2] = {0, c.rows}, zero = 0, n = c.rows * c.d;
    struct tw_batch batch = {.rows = c.rows,
                             .seqs = 1,
                             .token = own(&c, (size_t)c.rows, 4),
                             .offset = offset,
                             .document = &zero,
                             .start = &zero,
                             .row_class = c.row_class};
    void *ctx = NULL, *x = NULL, *y = NULL;
    struct tw_ffn *ffn = NULL;
    struct tw_ops_config config = {.cuda_path = the_device.path};
    TW_OK_OR_FAIL(ops->init(&config, &ctx, &c.err), c.err);
    TW_OK_OR_FAIL(ops->alloc(ctx, n, &x, &c.err), c.err);
    TW_OK_OR_FAIL(ops->alloc(ctx, n, &y, &c.err), c.err);
    TW_OK_OR_FAIL(ops->ffn_load(ctx, &c.desc, &ffn, &c.err), c.err);
    case_refer(&c);
    for (int batches = 0; batches < 3; batches++) {
        TW_OK_OR_FAIL(ops->start(ctx, &batch, &c.err), c.err);
        TW_OK_OR_FAIL(ops->upload(ctx, x, c.x, n, &c.err), c.err);
        TW_OK_OR_FAIL(ops->upload(ctx, y, c.residual, n, &c.err), c.err);
        tw_layer_obs_reset(&c.obs, c.rows);
        TW_OK_OR_FAIL(ops->ffn(ctx, y, x, y, ffn, &c.probes, &c.obs, &c.err),
                      c.err);
        TW_OK_OR_FAIL(ops->download(ctx, c.y, y, n, &c.err), c.err);
        TW_OK_OR_FAIL(ops->finish(ctx, &c.err), c.err);
        check_obs(&c);
        check_y(&c);
    }
    ops->ffn_free(ctx, ffn);
    ops->free(ctx, x);
    ops->free(ctx, y);
    ops->fini(ctx);
    case_fini(&c);
}
END_TEST

START_TEST(what_it_cannot_is_named)
{
    struct cuda_case c = {.rows = 1,
                          .d = 8,
                          .f = 8,
                          .act = "relu",
                          .is_gated = true,
                          .apply = "topk:3",
                          .row_limit = -1};
    case_make(&c);
    struct tw_ffn *ffn = NULL;
    TW_FAILS_WITH(twp_ffn_create(&c.desc, TW_BF16, &ffn, &c.err),
                  TW_ERR_UNSUPPORTED, "topk:3", c.err);
    c.desc.apply = NULL;
    c.desc.gate.cols = 9;
    TW_FAILS_WITH(twp_ffn_create(&c.desc, TW_BF16, &ffn, &c.err),
                  TW_ERR_MISMATCH, "gate is 8 x 9, not 8 x 8", c.err);
    struct twp_device device;
    TW_FAILS_WITH(twp_device_open(99, &device, &c.err), TW_ERR_UNSUPPORTED,
                  "there is no device 99", c.err);
    case_fini(&c);
}
END_TEST

static Suite *cuda_suite(const char *path)
{
    Suite *suite = suite_create(path);
    TCase *tc = tcase_create("grid");
    tcase_add_loop_test(tc, sparse_equals_the_reference, 0, SHAPES * KINDS);
    tcase_add_loop_test(tc, dense_equals_the_reference, 0, SHAPES * KINDS);
    suite_add_tcase(suite, tc);
    tc = tcase_create("routes");
    tcase_add_loop_test(tc, every_count_with_slots, 0,
                        sizeof slots_tried / sizeof slots_tried[0]);
    tcase_add_loop_test(tc, row_limit_routes, 0,
                        sizeof limits_tried / sizeof limits_tried[0]);
    tcase_add_loop_test(tc, every_variant_of_unpack, 0, 6);
    suite_add_tcase(suite, tc);
    tc = tcase_create("odd");
    tcase_add_loop_test(tc, odd_values, 0, 8);
    suite_add_tcase(suite, tc);
    tc = tcase_create("same");
    tcase_add_loop_test(tc, runs_are_equal_counted_or_not, 0, 4);
    tcase_add_loop_test(tc, a_row_is_free_of_its_place, 0, 4);
    tcase_add_loop_test(tc, few_and_many_routed_rows_are_equal, 0, 4);
    suite_add_tcase(suite, tc);
    tc = tcase_create("applied");
    tcase_add_loop_test(tc, applied_equals_the_reference, 0,
                        sizeof applied_acts / sizeof applied_acts[0]);
    suite_add_tcase(suite, tc);
    tc = tcase_create("plan");
    tcase_add_test(tc, plans_are_made_and_used);
    suite_add_tcase(suite, tc);
    tc = tcase_create("big");
    tcase_add_loop_test(tc, big_layer_equals_its_rows_alone, 0, 2);
    suite_add_tcase(suite, tc);
    tc = tcase_create("table");
    tcase_add_test(tc, ops_row_equals_the_reference);
    tcase_add_test(tc, what_it_cannot_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return cuda_main(cuda_suite);
}
