/* The choice of a layer's way by cost: never dearer than any other choice. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ffn_plan.h"
#include "tests/tw_check.h"

#define ROWS 300

/* Like the cuda backend's: a long row's own time, a fixed cost of routing. */
static const struct twp_ffn_costs costs = {.dense = 3000,
                                           .pack = 1000,
                                           .row = 100,
                                           .entry = 20,
                                           .chain = 300,
                                           .routed = 3000,
                                           .any = 400000};

static int by_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static struct tw_ffn_plan choose(const uint32_t *nnz, int64_t overflow)
{
    struct tw_error err = {0};
    struct tw_ffn_plan plan;
    const struct tw_ffn_seen seen = {ROWS, overflow, nnz};
    TW_OK_OR_FAIL(twp_ffn_plan_choose(&costs, &seen, &plan, &err), err);
    return plan;
}

/* Sorts nnz. The cost of a plan for those rows. */
static double cost_of(const struct tw_ffn_plan *plan, uint32_t *nnz,
                      int64_t overflow)
{
    int64_t routed = 0;
    if (plan->path == TW_FFN_DENSE)
        return costs.dense * ROWS;
    qsort(nnz, ROWS, sizeof *nnz, by_count);
    for (int r = 0; r < ROWS; r++)
        routed += nnz[r] > plan->row_limit;
    return twp_ffn_plan_cost(&costs, nnz, ROWS,
                             routed > overflow ? routed : overflow);
}

START_TEST(no_other_choice_is_cheaper)
{
    uint32_t nnz[ROWS], state = (uint32_t)_i * 77 + 1;
    int64_t overflow = _i % 4 == 0 ? _i % 7 : 0;
    for (int r = 0; r < ROWS; r++) {
        nnz[r] = draw(&state) % (uint32_t)(1 + _i * 6);
        if (draw(&state) % 20 == 0)
            nnz[r] = nnz[r] * 9 + 50;
    }
    struct tw_ffn_plan plan = choose(nnz, overflow);
    double cost = cost_of(&plan, nnz, overflow);
    ck_assert_double_le(cost, costs.dense * ROWS * (1 + 1e-12));
    for (int64_t routed = overflow; routed <= ROWS; routed++) {
        bool is_cut = routed > overflow && routed < ROWS &&
                      nnz[ROWS - routed] == nnz[ROWS - routed - 1];
        double other = twp_ffn_plan_cost(&costs, nnz, ROWS, routed);
        ck_assert(is_cut || cost <= other * (1 + 1e-12));
    }
}
END_TEST

START_TEST(equal_rows_change_over_at_the_cost)
{
    // pack + row + entry * n < dense: n < 95
    for (uint32_t n = 0; n < 200; n++) {
        uint32_t nnz[ROWS];
        for (int r = 0; r < ROWS; r++)
            nnz[r] = n;
        struct tw_ffn_plan plan = choose(nnz, 0);
        ck_assert_int_eq(plan.path, n < 95 ? TW_FFN_TWELL : TW_FFN_DENSE);
        if (n < 95)
            ck_assert_int_ge(plan.row_limit, 2 * n);
    }
}
END_TEST

START_TEST(many_long_rows_are_routed)
{
    uint32_t nnz[ROWS];
    for (int r = 0; r < ROWS; r++)
        nnz[r] = r < 60 ? 900 : 10;
    struct tw_ffn_plan plan = choose(nnz, 0);
    ck_assert_int_eq(plan.path, TW_FFN_TWELL);
    ck_assert_int_ge(plan.row_limit, 10);
    ck_assert_int_lt(plan.row_limit, 900);
}
END_TEST

START_TEST(overflow_counts_as_routed)
{
    uint32_t nnz[ROWS] = {0};
    struct tw_ffn_plan plan = choose(nnz, ROWS); // all are routed anyway
    ck_assert_int_eq(plan.path, TW_FFN_DENSE);
    plan = choose(nnz, 1);
    ck_assert_int_eq(plan.path, TW_FFN_TWELL);
}
END_TEST

START_TEST(order_of_rows_is_nothing)
{
    uint32_t nnz[ROWS], back[ROWS], state = 5;
    for (int r = 0; r < ROWS; r++)
        nnz[r] = back[ROWS - 1 - r] = draw(&state) % 150;
    struct tw_ffn_plan a = choose(nnz, 2), b = choose(back, 2);
    ck_assert_int_eq(a.path, b.path);
    ck_assert_int_eq(a.row_limit, b.row_limit);
}
END_TEST

START_TEST(a_plan_is_checked)
{
    struct tw_error err = {0};
    struct tw_ffn_plan plan = {TW_FFN_TWELL, 5};
    TW_OK_OR_FAIL(twp_ffn_plan_check(&plan, TW_FFN_TWELL, &err), err);
    TW_FAILS_WITH(twp_ffn_plan_check(&plan, TW_FFN_DENSE, &err),
                  TW_ERR_MISMATCH, "'twell'", err);
    err = (struct tw_error){0};
    plan.row_limit = -1;
    TW_FAILS_WITH(twp_ffn_plan_check(&plan, TW_FFN_TWELL, &err), TW_ERR_FORMAT,
                  "row_limit -1", err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ffn_plan");
    TCase *tc = tcase_create("core");
    tcase_add_loop_test(tc, no_other_choice_is_cheaper, 0, 60);
    tcase_add_test(tc, equal_rows_change_over_at_the_cost);
    tcase_add_test(tc, many_long_rows_are_routed);
    tcase_add_test(tc, overflow_counts_as_routed);
    tcase_add_test(tc, order_of_rows_is_nothing);
    tcase_add_test(tc, a_plan_is_checked);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
