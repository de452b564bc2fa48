/* Claims about figure breakeven and the paper's data: what speed-ups are taken
 * against, what --paper adds, which files of the paper's data are refused. */
#include <config.h>

#include "figure_case.h"

/* A timed layer at three densities; the library's dense form is slower than our
 * own. */
static int64_t make_bench(const char *name, const char *data, bool has_auto)
{
    static const struct {
        double nnz;
        int64_t twell, planned;
    } points[] = {{0, 300, 310}, {30, 500, 520}, {100, 2000, 1010}};
    struct tw_error err = {0};
    int64_t run;
    TW_OK_OR_FAIL(tw_store_run_create(store, name, "bench", &run, &err), err);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "status", "complete", &err),
                  err);
    for (int p = 0; p < 3; p++) {
        const struct {
            const char *target, *name, *path;
            int64_t ns;
        } rows[] = {{"ffn", "dense", "cublaslt", 1100000},
                    {"ffn", "dense", "hopper", 1000000},
                    {"ffn", "twell", "hopper", 1000 * points[p].twell},
                    {"gate", "dense", "cublaslt", 400},
                    {"ffn", "auto", "hopper", 1000 * points[p].planned}};
        for (int i = 0; i < (has_auto ? 5 : 4); i++) {
            const struct tw_store_bench row = {.target = rows[i].target,
                                               .name = rows[i].name,
                                               .path = rows[i].path,
                                               .dtype = "bfloat16",
                                               .data = data,
                                               .m = 1024,
                                               .k = 64,
                                               .n = 256,
                                               .nnz_mean = points[p].nnz,
                                               .repetitions = 5,
                                               .ns_median = rows[i].ns,
                                               .ns_min = rows[i].ns,
                                               .ns_mad = rows[i].ns / 100};
            TW_OK_OR_FAIL(tw_store_put_bench(store, run, &row, &err), err);
        }
    }
    return run;
}

/* Against the fastest dense form; nothing at no non-zeros, where the axis has
 * no place. Attention is in the paper's points: they come with --paper alone.
 */
START_TEST(breakeven_is_against_the_fastest_dense)
{
    static const char *const one[] = {"--run", "timed", NULL};
    static const char *const paper[] = {"--run", "timed", "--paper", NULL};
    static const char *const rows[] = {
        "0,\"uniform, 1024 tokens\",30.0,2.0,0.04,0\n",
        "0,\"uniform, 1024 tokens\",100.0,0.5,0.01,0\n",
        "100000,\"\",30.0,1.92307692307692",
        "100000,\"\",100.0,0.99009900990099"};
    struct tw_error err = {0};
    (void)make_bench("timed", "uniform", true);
    TW_OK_OR_FAIL(draw_with("breakeven", "b.csv", one, &err), err);
    char *text = text_of("b.csv");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(strstr(text, rows[i]) != NULL, "%s in\n%s", rows[i],
                      text);
    ck_assert_int_eq(times(text, "\n"), 5);
    tw_free(text);
    TW_OK_OR_FAIL(draw_with("breakeven", "p.csv", paper, &err), err);
    text = text_of("p.csv");
    ck_assert_int_eq(times(text, "whole 1.5B model"), 8);
    ck_assert_ptr_nonnull(strstr(text, ",29.0,1.169,"));
    tw_free(text);
}
END_TEST

START_TEST(breakeven_is_drawn)
{
    static const char *const runs[][8] = {
        {"--run", "bare"},
        {"--run", "timed"},
        {"--run", "bare", "--paper"},
        {"--run", "timed", "--run", "skew", "--paper", "--set", "columns=2"}};
    struct tw_error err = {0};
    const char *more[9] = {0};
    if (!has_gnuplot())
        return;
    (void)make_bench("timed", "uniform", true);
    (void)make_bench("skew", "skewed", true);
    (void)make_bench("bare", "uniform", false);
    memcpy(more, runs[_i], sizeof runs[_i]);
    TW_OK_OR_FAIL(draw_with("breakeven", "b.svg", more, &err), err);
    char *text = text_of("b.svg");
    ck_assert_int_eq(shown(text, "as planned"), _i % 2);
    ck_assert_int_eq(shown(text, "uniform, 1024 tokens"), 1);
    ck_assert_int_eq(shown(text, "skewed, 1024 tokens"), _i == 3);
    tw_free(text);
}
END_TEST

/* hostile: what a file of the paper's data may not be. */
static const struct {
    const char *text, *words;
} papers[] = {
    {"", "x.csv: line 0 is no row"},
    {"# only\n", "x.csv: line 0 is no row"},
    {"a,b\n1\n", "x.csv: line 2 is no row"},
    {"a,b\n1,2,3\n", "x.csv: line 2 is no row"},
    {"a b\n1\n", "x.csv: line 1 is no row"},
    {"a);DROP TABLE run_;--\n1\n", "x.csv: line 1 is no row"},
    {NULL, "paper/x.csv: not found"},
};

START_TEST(bad_data_of_the_paper_is_refused)
{
    struct tw_error err = {0};
    struct tw_figure_dirs mine;
    char place[96];
    snprintf(place, sizeof place, "%s/paper", folder);
    ck_assert_int_eq(mkdir(place, 0700), 0);
    write_text("f.sql",
               "-- figure x\n-- paper-data x\nSELECT 1 FROM paper_x\n");
    if (papers[_i].text)
        write_text("paper/x.csv", papers[_i].text);
    TW_OK_OR_FAIL(tw_figure_dirs_init(&mine, folder, &err), err);
    struct tw_figure *figure = NULL;
    TW_OK_OR_FAIL(tw_figure_load(&mine, "f", &figure, &err), err);
    TW_FAILS_WITH(tw_figure_paper(store, &mine, figure, true, &err),
                  papers[_i].text ? TW_ERR_FORMAT : TW_ERR_NOT_FOUND,
                  papers[_i].words, err);
    tw_figure_free(figure);
    tw_figure_dirs_fini(&mine);
    write_text("paper/x.csv", "");
    snprintf(place, sizeof place, "%s/paper/x.csv", folder);
    ck_assert_int_eq(unlink(place), 0);
    *strrchr(place, '/') = '\0';
    ck_assert_int_eq(rmdir(place), 0);
}
END_TEST

START_TEST(all_leaves_out_kinds_that_are_not_there)
{
    struct tw_error err = {0};
    TW_OK_OR_FAIL(draw_with("all", "%s.csv", (const char *[]){NULL}, &err),
                  err);
    ck_assert(has_file("tokens.csv") && !has_file("breakeven.csv"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("figure_bench");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 60);
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_test(core, breakeven_is_against_the_fastest_dense);
    tcase_add_loop_test(core, breakeven_is_drawn, 0, 4);
    tcase_add_loop_test(core, bad_data_of_the_paper_is_refused, 0,
                        sizeof papers / sizeof *papers);
    tcase_add_test(core, all_leaves_out_kinds_that_are_not_there);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
