/* Claims about analysis/statistics and analysis/parity, each on rows computed
 * by hand. */
#include <config.h>

#include <math.h>

#include "analysis/parity.h"
#include "analysis/statistics.h"
#include "tw_check.h"

#define NEAR(a, b) ck_assert_double_eq_tol(a, b, 1e-12)

/* Counts of the values 0 .. 7. */
static const struct {
    int64_t count[8];
    int permille;
    double quantile;
} quantiles[] = {
    {{0, 2, 1, 1}, 500, 1.5},          /* 1 1 2 3: h = 1.5 */
    {{0, 2, 1, 1}, 900, 2.7},          /* h = 2.7 */
    {{0, 2, 1, 1}, 0, 1},
    {{0, 2, 1, 1}, 1000, 3},
    {{0, 0, 0, 0, 0, 1}, 999, 5},      /* one value */
    {{1, 0, 0, 0, 0, 0, 0, 1}, 500, 3.5}, /* 0 7, an empty gap between */
    {{3, 0, 0, 0, 0, 0, 0, 1}, 900, 4.9}, /* h = 2.7: 0 + 0.7 * 7 */
    {{1, 1, 1, 1, 1, 1, 1, 0}, 990, 5.94},
    {{1000, 1}, 999, 0},               /* h = 999 exactly: the last 0 */
    {{999, 1}, 999, 0.001},            /* h = 998.001 */
    {{0, 0, 0, 1000000000000, 1}, 999, 3},
};

START_TEST(quantile_is_type_7)
{
    NEAR(tw_histogram_quantile(quantiles[_i].count, 8, quantiles[_i].permille),
         quantiles[_i].quantile);
}
END_TEST

START_TEST(nothing_measured_is_nan)
{
    const int64_t none[4] = {0};
    ck_assert(isnan(tw_histogram_quantile(none, 4, 500)));
    ck_assert(isnan(tw_histogram_std(none, 4)));
    ck_assert(isnan(tw_ratio(5, 0)));
    ck_assert_int_eq(tw_histogram_min(none, 4), -1);
    ck_assert_int_eq(tw_histogram_max(none, 4), -1);
}
END_TEST

START_TEST(std_is_of_the_population)
{
    const int64_t count[8] = {0, 0, 1, 0, 3, 2, 0, 1};
    /* values 2 4 4 4 5 5 7: mean 31/7, squares 151, 151/7 - 961/49 = 96/49 */
    NEAR(tw_histogram_std(count, 8), sqrt(96.0 / 49));
    const int64_t same[3] = {0, 0, 1000};
    ck_assert(tw_histogram_std(same, 3) == 0);
    ck_assert_int_eq(tw_histogram_min(count, 8), 2);
    ck_assert_int_eq(tw_histogram_max(count, 8), 7);
    ck_assert_int_eq(tw_histogram_total(count, 8), 7);
}
END_TEST

/* Sums of squares that no 64-bit integer holds. */
START_TEST(std_of_huge_counts_is_exact)
{
    static int64_t count[100001];
    count[99999] = count[100000] = (int64_t)1 << 60;
    NEAR(tw_histogram_std(count, 100001), 0.5);
}
END_TEST

START_TEST(jackknife_by_hand)
{
    /* Blocks of one value each: the jackknife of a mean is the usual standard
     * error, s / sqrt(n): 1 2 4 5: mean 3, s^2 = 10/3. */
    const int64_t sum[6] = {1, 0, 2, 4, 77, 5}, one[6] = {1, 0, 1, 1, 0, 1};
    NEAR(tw_jackknife_ratio_se(sum, one, 6), sqrt(10.0 / 3 / 4));
    /* Unequal blocks 6/2 and 12/3: R without each is 4 and 3, mean 3.5,
     * 1/2 * (0.25 + 0.25) = 0.25. */
    const int64_t a[2] = {6, 12}, b[2] = {2, 3};
    NEAR(tw_jackknife_ratio_se(a, b, 2), 0.5);
    ck_assert(isnan(tw_jackknife_ratio_se(a, b, 1)));
}
END_TEST

START_TEST(dead_curve_by_hand)
{
    /* First firings 0 0 1 3 4 9, two never; 10 rows. */
    const int64_t first[8] = {9, 0, -1, 3, 0, 4, 1, -1};
    const int64_t at[5] = {1, 2, 4, 8, 10}, dead_at[5] = {6, 5, 4, 3, 2};
    int64_t seen[TW_DEAD_POINTS], dead[TW_DEAD_POINTS];
    ck_assert_int_eq(tw_dead_curve(first, 8, 10, seen, dead), 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(seen[i], at[i]);
        ck_assert_int_eq(dead[i], dead_at[i]);
    }
}
END_TEST

START_TEST(dead_curve_ends)
{
    const int64_t first[3] = {0, 7, (int64_t)1 << 62};
    int64_t seen[TW_DEAD_POINTS], dead[TW_DEAD_POINTS];
    ck_assert_int_eq(tw_dead_curve(first, 3, 0, seen, dead), 0);
    ck_assert_int_eq(tw_dead_curve(first, 3, 1, seen, dead), 1);
    ck_assert_int_eq(seen[0], 1);
    ck_assert_int_eq(dead[0], 2); /* 7 is beyond the end: not yet */
    ck_assert_int_eq(tw_dead_curve(first, 3, 8, seen, dead), 4);
    ck_assert_int_eq(seen[3], 8); /* a power of two stands once */
    ck_assert_int_eq(dead[2], 2);
    ck_assert_int_eq(dead[3], 1);
    ck_assert_int_eq(tw_dead_curve(first, 3, INT64_MAX, seen, dead), 64);
    ck_assert_int_eq(dead[62], 1);
    ck_assert_int_eq(dead[63], 0);
}
END_TEST

START_TEST(parity_by_hand)
{
    const struct tw_parity_arrays a = {.nnz = (uint32_t[]){5, 7, 2},
                                       .l1 = (float[]){1, 3, 0},
                                       .fired = (uint64_t[]){4, 9}};
    const struct tw_parity_arrays b = {.nnz = (uint32_t[]){5, 4, 3},
                                       .l1 = (float[]){1, 2, 0},
                                       .fired = (uint64_t[]){4, 11}};
    struct tw_parity_layer l;
    tw_parity_layer(&a, &b, 3, 2, &l);
    ck_assert_int_eq(l.cells, 3);
    ck_assert_int_eq(l.identical, 1);
    ck_assert_int_eq(l.max_difference, 3);
    NEAR(l.total_difference, 2.0 / 12);
    ck_assert_int_eq(l.fired_cells, 2);
    ck_assert_int_eq(l.fired_identical, 1);
    ck_assert_int_eq(l.fired_max_difference, 2);
    NEAR(l.l1_max_relative, 0.5);
    tw_parity_layer(&a, &(struct tw_parity_arrays){0}, 3, 2, &l);
    ck_assert_int_eq(l.cells + l.fired_cells, 0);
    ck_assert(isnan(l.total_difference) && isnan(l.l1_max_relative));
}
END_TEST

START_TEST(parity_never_hides_nan)
{
    const float a[3] = {1, NAN, 2.5f}, b[3] = {1.5f, NAN, 2};
    NEAR(tw_parity_max_difference(a, b, 3), 0.5);
    NEAR(tw_parity_mean_difference(a, b, 3), 0);
    const float c[3] = {1.5f, 1, 2};
    ck_assert(isinf(tw_parity_max_difference(a, c, 3)));
    ck_assert(isnan(tw_parity_mean_difference(a + 1, c, 1)));
    struct tw_parity_layer l;
    const struct tw_parity_arrays bad = {.l1 = a}, good = {.l1 = c};
    tw_parity_layer(&bad, &good, 3, 0, &l);
    ck_assert(isinf(l.l1_max_relative));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("statistics");
    TCase *core = tcase_create("core");
    tcase_add_loop_test(core, quantile_is_type_7, 0,
                        sizeof quantiles / sizeof quantiles[0]);
    tcase_add_test(core, nothing_measured_is_nan);
    tcase_add_test(core, std_is_of_the_population);
    tcase_add_test(core, std_of_huge_counts_is_exact);
    tcase_add_test(core, jackknife_by_hand);
    tcase_add_test(core, dead_curve_by_hand);
    tcase_add_test(core, dead_curve_ends);
    tcase_add_test(core, parity_by_hand);
    tcase_add_test(core, parity_never_hides_nan);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
