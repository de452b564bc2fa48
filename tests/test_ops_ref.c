/* The reference feed-forward layer's counting, on rows worked out by hand. The
 * weights are unit matrices: x is (gate | up), so that h = act(gate) * up. */
#include <config.h>

#include "tests/ops_fixture.h"

enum { F = 4, ROWS = 3, PROBES = 6 };

/* gate, up and, by relu, h of each row: row 1 is a skipped one. */
static const float input[ROWS][2 * F] = {
    {1, -2, 0.5f, 3, /**/ 4, 1, -2, 0}, /* h = 4 0 -1 0 */
    {2, 2, 2, 2, /**/ 1, 1, 1, 1},      /* h = 2 2 2 2 */
    {0, 1, 2, -1, /**/ 9, 3, 1.5f, 9},  /* h = 0 3 3 0 */
};

static const char *const definitions[PROBES] = {
    "hidden", "gate", "abs:2", "gate-abs:0.9", "topp:0.8", "topk:1"};
static const uint32_t want_nnz[PROBES][ROWS] = {
    {2, 4, 2}, {3, 4, 2}, {1, 0, 2}, {2, 4, 2}, {1, 4, 2}, {1, 1, 1}};
static const uint64_t want_fired[PROBES][F] = {
    {1, 1, 2, 0}, {1, 1, 2, 1}, {1, 1, 1, 0},
    {1, 1, 1, 1}, {1, 1, 1, 0}, {1, 1, 0, 0}};

struct counted {
    struct tw_layer_obs obs;
    float y[ROWS][2 * F];
};

static void count(struct counted *out, const char *apply, const float *x)
{
    static const float gate[F][2 * F] = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
    static const float up[F][2 * F] = {
        {0, 0, 0, 0, 1}, {[5] = 1}, {[6] = 1}, {[7] = 1}};
    static const float down[2 * F][F] = {{1}, {0, 1}, {0, 0, 1}, {0, 0, 0, 1}};
    static const int64_t offset[] = {0, ROWS}, zero[] = {0};
    static const int32_t token[ROWS] = {0};
    static const uint8_t row_class[ROWS] = {0, TW_ROW_BOS | TW_ROW_SKIPPED, 0};
    struct tw_batch batch = {ROWS, 1, offset, zero, zero, token, row_class};
    struct tw_active active[PROBES], applied;
    struct tw_probes probes = {PROBES, active};
    struct tw_ffn_desc desc = {.d_model = 2 * F, .d_ff = F,
                               .activation = {.act = TW_ACT_RELU},
                               .gate = {gate, TW_F32, F, 2 * F},
                               .up = {up, TW_F32, F, 2 * F},
                               .down = {down, TW_F32, 2 * F, F}};
    const struct tw_ops *ops = &tw_ops_ref;
    struct tw_error err = {0};
    struct tw_ffn *ffn;
    void *ctx;
    for (int p = 0; p < PROBES; p++)
        TW_OK_OR_FAIL(tw_active_parse(definitions[p], &active[p], &err), err);
    if (apply) {
        TW_OK_OR_FAIL(tw_active_parse(apply, &applied, &err), err);
        desc.apply = &applied;
    }
    TW_OK_OR_FAIL(ops->init(&(struct tw_ops_config){0}, &ctx, &err), err);
    TW_OK_OR_FAIL(tw_layer_obs_init(&out->obs, ROWS, F, PROBES, 1, 1, &err),
                  err);
    tw_layer_obs_reset(&out->obs, ROWS);
    TW_OK_OR_FAIL(ops->start(ctx, &batch, &err), err);
    TW_OK_OR_FAIL(ops->ffn_load(ctx, &desc, &ffn, &err), err);
    TW_OK_OR_FAIL(ops->ffn(ctx, out->y, x, x, ffn, &probes, &out->obs, &err),
                  err);
    ops->ffn_free(ctx, ffn);
    TW_OK_OR_FAIL(ops->finish(ctx, &err), err);
    ops->fini(ctx);
}

START_TEST(definitions_count_what_they_say)
{
    struct counted c;
    count(&c, NULL, &input[0][0]);
    for (int p = 0; p < PROBES; p++) {
        for (int row = 0; row < ROWS; row++)
            ck_assert_msg(c.obs.nnz[p * ROWS + row] == want_nnz[p][row],
                          "%s row %d: %u", definitions[p], row,
                          c.obs.nnz[p * ROWS + row]);
        for (int n = 0; n < F; n++)
            ck_assert_msg(c.obs.fired[p * F + n] == want_fired[p][n],
                          "%s neuron %d", definitions[p], n);
    }
    ck_assert_uint_eq(c.obs.first[0], 0);
    ck_assert_uint_eq(c.obs.last[2], 2);
    ck_assert_uint_eq(c.obs.first[3], UINT32_MAX);
    ck_assert_uint_eq(c.obs.seen[0], 2);
    ck_assert_int_eq(c.obs.bad_row, -1);
    tw_layer_obs_fini(&c.obs);
}
END_TEST

START_TEST(sums_and_histograms_leave_skipped_rows_out)
{
    struct counted c;
    count(&c, NULL, &input[0][0]);
    static const float l1[ROWS] = {5, 8, 6};
    for (int row = 0; row < ROWS; row++)
        ck_assert_float_eq(c.obs.l1[row], l1[row]);
    for (int t = 0; t < TW_TILE_WIDTHS; t++) {
        ck_assert_uint_eq(c.obs.tiles[t][3], 1); /* row 0's pattern */
        ck_assert_uint_eq(c.obs.tiles[t][2], 1);
        ck_assert_uint_eq(c.obs.tiles[t][4], 0);
    }
    ck_assert_int_eq(c.obs.abs_sum[0], 4 << 20);
    ck_assert_int_eq(c.obs.abs_sum[2], 4 << 20); /* 1 and 3 */
    ck_assert_float_eq(c.obs.abs_max[2], 3);
    ck_assert_uint_eq(c.obs.magnitude[40], 1); /* |-1| */
    ck_assert_uint_eq(c.obs.magnitude[41], 2); /* 3, 3 */
    ck_assert_uint_eq(c.obs.magnitude[42], 1); /* 4 */
    ck_assert_float_eq(c.y[0][0], input[0][0] + 4);
    ck_assert_float_eq(c.y[0][2], input[0][2] - 1);
    ck_assert_float_eq(c.y[0][5], input[0][5]);
    tw_layer_obs_fini(&c.obs);
}
END_TEST

START_TEST(apply_zeroes_and_becomes_the_pattern)
{
    struct counted c;
    count(&c, "abs:2", &input[0][0]);
    ck_assert_uint_eq(c.obs.nnz[0], 1);        /* hidden: 4 */
    ck_assert_uint_eq(c.obs.nnz[ROWS], 1);     /* gate: the definition */
    ck_assert_uint_eq(c.obs.nnz[ROWS + 1], 0); /* |2| isn't above 2 */
    ck_assert_uint_eq(c.obs.tiles[0][1], 1);
    ck_assert_float_eq(c.obs.l1[0], 4);
    ck_assert_float_eq(c.y[0][2], input[0][2]);
    tw_layer_obs_fini(&c.obs);
}
END_TEST

START_TEST(first_bad_value_is_named)
{
    struct counted c;
    float x[ROWS][2 * F];
    memcpy(x, input, sizeof x);
    x[1][2] = NAN; /* a skipped row: named all the same */
    count(&c, NULL, &x[0][0]);
    ck_assert_int_eq(c.obs.bad_row, 1);
    ck_assert_int_eq(c.obs.bad_neuron, 0); /* 0 * NaN in its product */
    tw_layer_obs_fini(&c.obs);
}
END_TEST

START_TEST(ties_go_to_the_lower_number)
{
    struct counted c;
    count(&c, NULL, &input[0][0]);
    ck_assert_uint_eq(c.obs.fired[5 * F + 1], 1); /* row 2: 3 and 3 */
    ck_assert_uint_eq(c.obs.fired[5 * F + 2], 0);
    tw_layer_obs_fini(&c.obs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops_ref");
    TCase *core = tcase_create("Core");
    tcase_add_test(core, definitions_count_what_they_say);
    tcase_add_test(core, sums_and_histograms_leave_skipped_rows_out);
    tcase_add_test(core, apply_zeroes_and_becomes_the_pattern);
    tcase_add_test(core, ties_go_to_the_lower_number);
    tcase_add_test(core, first_bad_value_is_named);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
