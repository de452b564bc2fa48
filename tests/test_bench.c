/* Claims about bench: the firing rates it plants, that rows and weights don't
 * depend on threads, that planted rates are met on the cpu backend, where the
 * break-even lies, and that energy is NULL with a reason where NVML isn't. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "run/bench_data.h"
#include "run/bench_ffn.h"
#include "run/bench_rates.h"
#include "run/energy.h"
#include "run/random.h"
#include "tw_check.h"

#define MEASURED (1133374.0 / 65536) /* mean non-zeros of the table */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const struct {
    int64_t n;
    double nnz;
} wanted[] = {{1024, MEASURED}, {5632, 0}, {5632, 29}, {5632, 911},
              {5632, 2600},     {8192, 5}, {7, 1},     {1024, 400}};

START_TEST(skewed_rates_sum_to_the_mean)
{
    int64_t n = wanted[_i].n, dead = 0;
    double *rate = tw_alloc((size_t)n, sizeof *rate), sum = 0;
    double said = tw_bench_rates_skewed(rate, n, wanted[_i].nnz, 1);
    for (int64_t i = 0; i < n; i++) {
        ck_assert(rate[i] >= 0 && rate[i] <= 1);
        dead += rate[i] == 0;
        sum += rate[i];
    }
    ck_assert_double_eq_tol(sum, wanted[_i].nnz, 1e-6 * (double)n);
    ck_assert_double_eq_tol(said, sum, 1e-9 * (double)n);
    if (wanted[_i].nnz > 0 && n > 100)
        ck_assert_double_eq_tol((double)dead / (double)n, 532 / 1024.0, 2e-3);
    tw_free(rate);
}
END_TEST

/* Facts of the measured layer. Its README says 52 % dead and 59 % of the
 * firings by the most active tenth, on other 65,536 tokens of the same text. */
START_TEST(the_table_is_the_measured_layer)
{
    double rate[1024], top = 0;
    tw_bench_rates_skewed(rate, 1024, MEASURED, 3);
    qsort(rate, 1024, sizeof *rate, ascending);
    ck_assert_double_eq_tol(rate[1023], 40615 / 65536.0, 1e-6);
    ck_assert_double_eq_tol(rate[532], 1 / 65536.0, 1e-9);
    ck_assert_double_eq(rate[531], 0);
    for (int i = 1024 - 102; i < 1024; i++)
        top += rate[i];
    ck_assert_double_eq_tol(top / MEASURED, 0.59, 0.03);
}
END_TEST

START_TEST(more_than_every_live_neuron_is_said)
{
    double rate[1024];
    double reached = tw_bench_rates_skewed(rate, 1024, 1000, 1);
    ck_assert_double_eq(reached, 1024 - 532);
}
END_TEST

START_TEST(a_seed_shuffles_the_same_rates)
{
    double a[600], b[600], again[600];
    int moved = 0;
    tw_bench_rates_skewed(a, 600, 20, 1);
    tw_bench_rates_skewed(b, 600, 20, 2);
    tw_bench_rates_skewed(again, 600, 20, 1);
    ck_assert_mem_eq(a, again, sizeof a);
    for (int i = 0; i < 600; i++)
        moved += a[i] != b[i];
    ck_assert_int_gt(moved, 200);
    qsort(a, 600, sizeof *a, ascending);
    qsort(b, 600, sizeof *b, ascending);
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

static const enum tw_dtype types[] = {TW_BF16, TW_F16, TW_F32};

/* Stored within half a step of the type; 0 means never. */
START_TEST(thresholds_are_planted)
{
    static const double step[] = {0x1p-9, 0x1p-12, 0x1p-24};
    struct tw_error err = {0};
    struct tw_bench_data data;
    const struct tw_bench_shape shape = {.rows = 3,
                                         .d_model = 16,
                                         .d_ff = 4,
                                         .is_plain = _i == 2,
                                         .dtype = types[_i],
                                         .threads = 2,
                                         .seed = 5};
    const double rate[4] = {0, 0.005, 0.5, 1};
    TW_OK_OR_FAIL(tw_bench_data_make(&shape, &data, &err), err);
    tw_bench_data_plant(&data, rate);
    const void *matrix = shape.is_plain ? data.up : data.gate;
    float wide[64];
    tw_widen(wide, matrix, types[_i], 64);
    ck_assert_float_lt(wide[15], -20);
    float want = (float)tw_normal_quantile(0.005);
    ck_assert_float_eq_tol(wide[31], want, 4 * step[_i]);
    ck_assert_float_eq_tol(wide[47], 0, 1e-6);
    ck_assert_float_gt(wide[63], 6);
    for (int r = 0; r < 3; r++)
        ck_assert_float_eq(data.x[16 * r + 15], 1);
    tw_bench_data_fini(&data);
}
END_TEST

START_TEST(threads_change_no_number)
{
    struct tw_error err = {0};
    struct tw_bench_data one, three;
    struct tw_bench_shape shape = {.rows = 50,
                                   .d_model = 24,
                                   .d_ff = 40,
                                   .dtype = types[_i],
                                   .threads = 1,
                                   .seed = 9};
    TW_OK_OR_FAIL(tw_bench_data_make(&shape, &one, &err), err);
    shape.threads = 3;
    TW_OK_OR_FAIL(tw_bench_data_make(&shape, &three, &err), err);
    size_t bytes = 24 * 40 * tw_dtype_size(types[_i]);
    ck_assert_mem_eq(one.x, three.x, 50 * 24 * sizeof *one.x);
    ck_assert_mem_eq(one.gate, three.gate, bytes);
    ck_assert_mem_eq(one.up, three.up, bytes);
    ck_assert_mem_eq(one.down, three.down, bytes);
    ck_assert_int_ne(memcmp(one.gate, one.up, bytes), 0);
    tw_bench_data_fini(&one);
    tw_bench_data_fini(&three);
}
END_TEST

static const struct {
    const char *data;
    bool is_plain;
    double nnz;
} planted[] = {{"uniform", false, 5}, {"uniform", true, 60},
               {"skewed", false, 20}, {"skewed", true, 100},
               {"uniform", false, 0}, {"uniform", true, 256}};

START_TEST(planted_rates_are_met)
{
    struct tw_error err = {0};
    struct tw_bench_point point;
    struct tw_bench_ffn_options o = {.backend = "cpu",
                                     .path = "auto",
                                     .threads = 2,
                                     .rows = 700,
                                     .d_model = 128,
                                     .d_ff = 256,
                                     .is_plain = planted[_i].is_plain,
                                     .dtype = TW_BF16,
                                     .nnz = {planted[_i].nnz},
                                     .n_nnz = 1,
                                     .data = planted[_i].data,
                                     .repetitions = 2,
                                     .has_energy = true,
                                     .seed = 1};
    TW_OK_OR_FAIL(tw_bench_ffn(&o, &point, &err), err);
    ck_assert_double_eq_tol(point.nnz_mean, planted[_i].nnz,
                            0.05 * planted[_i].nnz + 1e-9);
    const struct tw_bench_row *twell = tw_bench_find(&point, "ffn", "twell");
    const struct tw_bench_row *dense = tw_bench_dense(&point);
    ck_assert_str_eq(dense->path, "cblas");
    ck_assert_double_eq(dense->rel_error, 0);
    ck_assert_double_lt(twell->rel_error, 1e-5);
    ck_assert(isnan(twell->mj_per_token) && isnan(point.idle_watt));
    ck_assert_int_gt(twell->min, 0);
    ck_assert(twell->min <= twell->median);
    ck_assert_str_eq(o.data_name, planted[_i].data);
}
END_TEST

START_TEST(break_even_is_interpolated)
{
    struct tw_bench_point points[3] = {0};
    const double nnz[] = {10, 100, 1000}, speedup[] = {4, 2, 0.5};
    for (int i = 0; i < 3; i++) {
        points[i].nnz_mean = nnz[i];
        points[i].n_rows = 1;
        points[i].row[0] = (struct tw_bench_row){
            .target = "ffn", .name = "twell", .speedup = speedup[i]};
    }
    ck_assert_double_eq_tol(tw_bench_break_even(points, 3), 316.2278, 1e-3);
    ck_assert(isnan(tw_bench_break_even(points, 2)));
    ck_assert(isnan(tw_bench_break_even(points, 1)));
}
END_TEST

static const struct {
    const char *library, *id, *words;
} absent[] = {{"libnosuch-nvml.so.9", "0000:01:00.0", "libnosuch-nvml.so.9"},
              {"libm.so.6", "0000:01:00.0", "NVML has no nvmlInit_v2"},
              {"", "0000:02:00.0", "NVML: 0000:02:00.0: Not Found"},
              {"", "broken", "NVML: energy counter: Not Supported"}};

/* "" is the stand-in of fake_nvml.c. */
static const char *library_of(const char *name)
{
    static char path[4096];
    const char *top = getenv("top_builddir");
    snprintf(path, sizeof path, "%s/tests/fake_nvml.so", top ? top : ".");
    return *name ? name : path;
}

START_TEST(without_a_counter_the_reason_is_said)
{
    struct tw_error err = {0};
    struct tw_energy *energy = NULL;
    TW_FAILS_WITH(tw_energy_open(library_of(absent[_i].library), absent[_i].id,
                                 &energy, &err),
                  TW_ERR_UNSUPPORTED, absent[_i].words, err);
    ck_assert_ptr_null(energy);
}
END_TEST

START_TEST(the_counter_is_read)
{
    struct tw_error err = {0};
    struct tw_energy *energy = NULL;
    uint64_t before, after;
    TW_OK_OR_FAIL(tw_energy_open(library_of(""), "0000:01:00.0", &energy, &err),
                  err);
    TW_OK_OR_FAIL(tw_energy_read(energy, &before, &err), err);
    TW_OK_OR_FAIL(tw_energy_read(energy, &after, &err), err);
    ck_assert_uint_eq(after - before, 250000);
    tw_energy_close(energy);
    tw_energy_close(NULL);
}
END_TEST

#define COUNT(rows) (int)(sizeof(rows) / sizeof *(rows))

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 60);
    tcase_add_loop_test(core, skewed_rates_sum_to_the_mean, 0, COUNT(wanted));
    tcase_add_test(core, the_table_is_the_measured_layer);
    tcase_add_test(core, more_than_every_live_neuron_is_said);
    tcase_add_test(core, a_seed_shuffles_the_same_rates);
    tcase_add_loop_test(core, thresholds_are_planted, 0, COUNT(types));
    tcase_add_loop_test(core, threads_change_no_number, 0, COUNT(types));
    tcase_add_loop_test(core, planted_rates_are_met, 0, COUNT(planted));
    tcase_add_test(core, break_even_is_interpolated);
    tcase_add_loop_test(core, without_a_counter_the_reason_is_said, 0,
                        COUNT(absent));
    tcase_add_test(core, the_counter_is_read);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
