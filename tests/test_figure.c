/* Claims about src/cmd/figure*: a head declares what --set may change, runs
 * are chosen as documented, odd tokens are quoted for gnuplot and LaTeX, each
 * of our figures has a query that runs, and is drawn where gnuplot is, for one
 * run and several, without a warning of gnuplot's; failures leave no file. */
#include <config.h>

#include "figure_case.h"

START_TEST(names_and_the_papers_numbers)
{
    static const char *const pairs[][2] = {
        {"layers", "layers"}, {"6", "layers"}, {"11", "layers"},
        {"7a", "tokens"},     {"7b", "positions"}};
    struct tw_error err = {0};
    struct tw_figure *none = NULL;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct tw_figure *figure = load(pairs[i][0]);
        ck_assert_str_eq(figure->name, pairs[i][1]);
        tw_figure_free(figure);
    }
    TW_FAILS_WITH(tw_figure_load(&dirs, "1", &none, &err), TW_ERR_USAGE,
                  "no figure '1'", err);
    TW_FAILS_WITH(tw_figure_load(&dirs, "../x", &none, &err), TW_ERR_USAGE,
                  "no figure '../x'", err);
}
END_TEST

static const struct {
    const char *setting, *words; /* words NULL: taken */
} settings[] = {
    {"top=3", NULL},          {"min_share=1e-3", NULL},
    {"columns=2", NULL},      {"height=NULL", NULL},
    {"top=-1", NULL},         {"min_share=5", NULL},
    {"top", "not KEY=VALUE"}, {"no=3", "no such parameter"},
    {"top=3.5", "an INTEGER"}, {"top=x", "an INTEGER"},
    {"min_share=0x10", "a REAL"}, {"min_share=nan", "a REAL"},
    {"min_share=1e999", "a REAL"}, {"top=", "an INTEGER"},
    {"top=99999999999999999999", "an INTEGER"},
};

START_TEST(settings_are_checked)
{
    struct tw_error err = {0};
    struct tw_figure *figure = load("tokens");
    if (settings[_i].words)
        TW_FAILS_WITH(tw_figure_set(figure, settings[_i].setting, &err),
                      TW_ERR_USAGE, settings[_i].words, err);
    else
        TW_OK_OR_FAIL(tw_figure_set(figure, settings[_i].setting, &err), err);
    tw_figure_free(figure);
}
END_TEST

START_TEST(bad_heads_are_refused)
{
    struct tw_error err = {0};
    struct tw_figure_dirs mine;
    struct tw_figure *figure = NULL;
    write_text("bad.sql", "-- param x FLOAT 1 help\nSELECT 1\n");
    TW_OK_OR_FAIL(tw_figure_dirs_init(&mine, folder, &err), err);
    TW_FAILS_WITH(tw_figure_load(&mine, "bad", &figure, &err), TW_ERR_FORMAT,
                  "bad.sql: a param line", err);
    tw_figure_dirs_fini(&mine);
    TW_FAILS_WITH(tw_figure_dirs_init(&mine, "/no/such", &err),
                  TW_ERR_NOT_FOUND, "/no/such: no such folder", err);
}
END_TEST

static void picked_is(const char *want)
{
    struct tw_error err = {0};
    struct tw_figure_run *runs;
    size_t count;
    TW_OK_OR_FAIL(tw_figure_runs(store, "profile", NULL, 0, NULL, &runs, &count,
                                 &err), err);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(runs[0].run, want);
    ck_assert_str_eq(runs[0].active, "hidden");
    tw_figure_runs_free(runs, count);
}

/* A note may take lines; each of its rows is one of the head. */
START_TEST(notes_are_asked_of_the_rows)
{
    struct tw_error err = {0};
    struct tw_figure_dirs mine;
    struct tw_figure *figure = NULL;
    struct tw_figure_data data;
    struct tw_figure_run runs[] = {{"old", "hidden", "old"}};
    write_text("noted.sql", "-- figure some\n"
                            "-- note SELECT x, x * x AS square, NULL AS none\n"
                            "-- note FROM figure WHERE x > 1\n"
                            "SELECT 1 AS x UNION ALL SELECT 2 UNION ALL "
                            "SELECT 3 -- and no more\n");
    write_text("wrong.sql", "-- note SELECT nosuch FROM figure\nSELECT 1\n");
    TW_OK_OR_FAIL(tw_figure_dirs_init(&mine, folder, &err), err);
    TW_OK_OR_FAIL(tw_figure_load(&mine, "noted", &figure, &err), err);
    TW_OK_OR_FAIL(tw_figure_data(store, figure, runs, 1, false, &data, &err),
                  err);
    ck_assert_ptr_nonnull(strstr(data.text.data, "\n# x=2, square=4\n"
                                                 "# x=3, square=9\n"));
    ck_assert_ptr_null(strstr(data.text.data, "square=1"));
    tw_figure_data_fini(&data);
    tw_figure_free(figure);
    TW_OK_OR_FAIL(tw_figure_load(&mine, "wrong", &figure, &err), err);
    TW_FAILS_WITH(tw_figure_data(store, figure, runs, 1, false, &data, &err),
                  TW_ERR_DB, "figure wrong: note: ", err);
    tw_figure_free(figure);
    tw_figure_dirs_fini(&mine);
}
END_TEST

START_TEST(newest_complete_run_is_picked)
{
    struct tw_error err = {0};
    picked_is("old");
    int64_t run = make_run("new", "interrupted");
    picked_is("old");
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "status", "complete", &err),
                  err);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "finished", "2999-01-01", &err),
                  err);
    picked_is("new");
}
END_TEST

START_TEST(runs_and_definitions_are_checked)
{
    struct tw_error err = {0};
    struct tw_figure_run *runs = NULL;
    size_t count;
    TW_FAILS_WITH(tw_figure_runs(store, "profile", (const char *[]){"no"}, 1,
                                 NULL, &runs, &count, &err), TW_ERR_NOT_FOUND,
                  "no run 'no'", err);
    TW_FAILS_WITH(tw_figure_runs(store, "profile", (const char *[]){"old"}, 1,
                                 "abs:0.010", &runs, &count, &err),
                  TW_ERR_NOT_FOUND,
                  "run 'old' has no definition 'abs:0.01'; it has: hidden",
                  err);
    TW_FAILS_WITH(tw_figure_runs(store, "train", NULL, 0, NULL, &runs, &count,
                                 &err), TW_ERR_NOT_FOUND,
                  "no run of kind 'train'", err);
}
END_TEST

static void make_data(const char *name, bool is_tex,
                      struct tw_figure_data *data)
{
    struct tw_error err = {0};
    struct tw_figure_run *runs;
    size_t count;
    struct tw_figure *figure = load(name);
    TW_OK_OR_FAIL(tw_figure_runs(store, "profile", NULL, 0, NULL, &runs, &count,
                                 &err), err);
    TW_OK_OR_FAIL(tw_figure_data(store, figure, runs, count, is_tex, data,
                                 &err), err);
    tw_figure_runs_free(runs, count);
    tw_figure_free(figure);
}

START_TEST(odd_tokens_are_quoted)
{
    struct tw_figure_data data;
    static const char *const plain[] = {"\t\"\"\"\"\t", "\t\"\\\\\"\t",
                                        "\t\"#\"\t", "\t\"a\\\\tb\"\t",
                                        "\t\"'\"\t"};
    static const char *const tex[] = {"\"\\\\textbackslash{}\"", "\"\\\\#\"",
                                      "\\\\{x\\\\}", "\"\\\\_\""};
    make_data("tokens", false, &data);
    ck_assert_uint_eq(data.rows, 8);
    ck_assert_uint_eq(data.blocks, 1);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        ck_assert_msg(strstr(data.text.data, plain[i]) != NULL, "%s in\n%s",
                      plain[i], data.text.data);
    tw_figure_data_fini(&data);
    make_data("tokens", true, &data);
    for (size_t i = 0; i < sizeof tex / sizeof *tex; i++)
        ck_assert_msg(strstr(data.text.data, tex[i]) != NULL, "%s in\n%s",
                      tex[i], data.text.data);
    tw_figure_data_fini(&data);
}
END_TEST

START_TEST(data_says_where_it_is_from)
{
    struct tw_figure_data data;
    static const char *const words[] = {
        "# twellscope ", "figure layers", "run=old", "tokens=800",
        "active=hidden", "# set columns=1", "#   SELECT", "#   4 mean_nnz",
        "\n0\t\"old\"\t0\t4.5\t30\t64\tNaN\n"};
    make_data("layers", false, &data);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        ck_assert_msg(strstr(data.text.data, words[i]) != NULL, "%s in\n%s",
                      words[i], data.text.data);
    tw_figure_data_fini(&data);
}
END_TEST

static enum tw_status draw(const char *name, const char *file,
                           struct tw_error *err)
{
    return draw_with(name, file, (const char *[]){"--run", "old", NULL}, err);
}

static const char *const ours[] = {"layers", "tokens", "positions", "neurons",
                                   "dead_curve", "tiles"};

START_TEST(each_figure_has_numbers)
{
    struct tw_error err = {0};
    struct stat info;
    char file[64], out[160];
    snprintf(file, sizeof file, "%s.csv", ours[_i]);
    snprintf(out, sizeof out, "%s/%s", folder, file);
    TW_OK_OR_FAIL(draw(ours[_i], file, &err), err);
    ck_assert_int_eq(stat(out, &info), 0);
    ck_assert_int_gt(info.st_size, 60);
}
END_TEST

START_TEST(each_figure_is_drawn)
{
    static const char *const endings[] = {"pdf", "svg", "png", "tex"};
    struct tw_error err = {0};
    if (!has_gnuplot())
        return;
    for (int i = 0; i < 4; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s.%s", ours[_i], endings[i]);
        TW_OK_OR_FAIL(draw(ours[_i], file, &err), err);
    }
}
END_TEST

static const char *const three[] = {"--run", "old", "--run", "second",
                                    "--run", "third", "--set", "columns=1",
                                    NULL};
static const char *const three_wide[] = {"--run", "old", "--run", "second",
                                         "--run", "third", "--set",
                                         "columns=2", NULL};

static void make_two_more(void)
{
    put_all(make_run("second", "complete"));
    put_all(make_run("third", "complete"));
}

START_TEST(each_figure_is_drawn_of_three_runs)
{
    struct tw_error err = {0};
    char file[64];
    if (!has_gnuplot())
        return;
    make_two_more();
    snprintf(file, sizeof file, "%s.svg", ours[_i]);
    TW_OK_OR_FAIL(draw_with(ours[_i], file, three, &err), err);
    char *text = text_of(file);
    ck_assert_int_eq(shown(text, "second"), 1);
    ck_assert_int_eq(shown(text, "third"), 1);
    tw_free(text);
    TW_OK_OR_FAIL(draw_with(ours[_i], file, three_wide, &err), err);
}
END_TEST

/* A key inside the axes would lie over what is drawn there. */
START_TEST(keys_stand_outside)
{
    static const char *const files[] = {"theme", "layers", "positions",
                                        "neurons", "dead_curve", "tiles",
                                        "breakeven"};
    struct tw_error err = {0};
    char place[4200], *text;
    size_t size;
    snprintf(place, sizeof place, "%s/%s.gp", figures, files[_i]);
    TW_OK_OR_FAIL(tw_file_read(place, 1 << 20, &text, &size, &err), err);
    for (const char *at = text; (at = strstr(at, "set key ")) != NULL; at += 8)
        ck_assert_msg((at > text + 1 && strncmp(at - 2, "unset", 5) == 0) ||
                          strncmp(at + 8, "above ", 6) == 0 ||
                          strncmp(at + 8, "outside ", 8) == 0,
                      "%s: %.40s", place, at);
    tw_free(text);
}
END_TEST

/* Five names for six curves, each with a colour and dashes of its own. */
START_TEST(tiles_name_widths_and_runs_once)
{
    struct tw_error err = {0};
    make_two_more();
    TW_OK_OR_FAIL(draw_with("tiles", "t.csv", three, &err), err);
    char *text = text_of("t.csv");
    for (int run = 1; run <= 3; run++)
        for (int width = 1; width <= 2; width++) {
            char pair[32];
            snprintf(pair, sizeof pair, "%d,%d,%d\n", 64 * width, run, width);
            ck_assert_int_eq(times(text, pair), 4);
        }
    tw_free(text);
    if (!has_gnuplot())
        return;
    TW_OK_OR_FAIL(draw_with("tiles", "t.svg", three, &err), err);
    text = text_of("t.svg");
    ck_assert_int_eq(shown(text, "64 wide"), 1);
    ck_assert_int_eq(shown(text, "128 wide"), 1);
    ck_assert_int_eq(shown(text, "old"), 1);
    tw_free(text);
}
END_TEST

/* Layers that never fire, and no counted token at all. */
START_TEST(nothing_fired_is_drawn)
{
    static const char *const alone[] = {"--run", "uncounted", NULL};
    static const char *const first[] = {"--run", "uncounted", "--run", "old",
                                        NULL};
    static const char *const silent[] = {"--run", "silent", NULL};
    static const char *const both[] = {"--run", "old", "--run", "silent", NULL};
    struct tw_error err = {0};
    if (!has_gnuplot())
        return;
    int64_t run = make_run("silent", "complete");
    for (int64_t i = 1; i < 4; i++)
        put(TW_TABLE_LAYER, (int64_t[]){run, 0, i, 64, 800, 0, 0, 0, 0});
    put(TW_TABLE_DEAD_CURVE, (int64_t[]){run, 0, 1, 1, 64});
    run = make_run("uncounted", "complete");
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "tokens", 0, &err), err);
    put(TW_TABLE_LAYER, (int64_t[]){run, 0, 1, 64, 0, 0, TW_NULL, TW_NULL, 0});
    for (int64_t i = 0; i < 4; i++)
        put(TW_TABLE_DEAD_CURVE, (int64_t[]){run, 0, 1, 1 << i, 64});
    TW_OK_OR_FAIL(draw_with("dead_curve", "a.svg", alone, &err), err);
    TW_OK_OR_FAIL(draw_with("dead_curve", "b.svg", first, &err), err);
    TW_OK_OR_FAIL(draw_with("dead_curve", "c.svg", silent, &err), err);
    TW_OK_OR_FAIL(draw_with("layers", "d.svg", silent, &err), err);
    TW_OK_OR_FAIL(draw_with("layers", "e.svg", both, &err), err);
}
END_TEST

START_TEST(no_data_is_an_error_in_every_format)
{
    static const char *const endings[] = {"csv", "json", "png", "tex"};
    struct tw_error err = {0};
    char file[16];
    (void)make_run("bare", "complete");
    snprintf(file, sizeof file, "x.%s", endings[_i]);
    TW_FAILS_WITH(draw_with("tokens", file,
                            (const char *[]){"--run", "bare", NULL}, &err),
                  TW_ERR_NOT_FOUND,
                  "figure tokens: run 'bare' has no data for it", err);
    ck_assert(!has_file(file));
}
END_TEST

static const struct {
    const char *setting, *words; /* words NULL: taken */
} settings_of_all[] = {
    {"min_share=0.001", NULL},
    {"columns=2", NULL},
    {"nosuch=1", "--set nosuch=1: no figure has such a parameter"},
    {"top=x", "an INTEGER"},
    {"top", "not KEY=VALUE"},
};

START_TEST(all_takes_what_one_figure_declares)
{
    struct tw_error err = {0};
    const char *const more[] = {"--run", "old", "--set",
                                settings_of_all[_i].setting, NULL};
    if (!settings_of_all[_i].words) {
        TW_OK_OR_FAIL(draw_with("all", "%s.csv", more, &err), err);
        ck_assert(has_file("tokens.csv") && has_file("tiles.csv"));
        return;
    }
    TW_FAILS_WITH(draw_with("all", "%s.csv", more, &err), TW_ERR_USAGE,
                  settings_of_all[_i].words, err);
    ck_assert(!has_file("dead_curve.csv"));
}
END_TEST

/* teardown's rmdir fails if a temporary folder is left. */
START_TEST(a_failed_drawing_leaves_no_file)
{
    struct tw_error err = {0};
    if (!has_gnuplot())
        return;
    setenv("TWELLSCOPE_FIGURES", figures, 1);
    strcpy(figures, folder);
    write_text("bad.sql", "SELECT 1 AS x, 2 AS y UNION SELECT 2, 3\n");
    write_text("bad.gp", "plot data using 1:2 with lines\nnonsense\n");
    write_text("old.svg", "as it was");
    TW_FAILS_WITH(draw("bad", "new.svg", &err), TW_ERR_IO, "gnuplot failed",
                  err);
    ck_assert(!has_file("new.svg"));
    TW_FAILS_WITH(draw("bad", "new.tex", &err), TW_ERR_IO, "gnuplot failed",
                  err);
    ck_assert(!has_file("new.tex") && !has_file("new.pdf"));
    TW_FAILS_WITH(draw("bad", "old.svg", &err), TW_ERR_IO, "gnuplot failed",
                  err);
    char *text = text_of("old.svg");
    ck_assert_str_eq(text, "as it was");
    tw_free(text);
}
END_TEST

START_TEST(kept_files_draw_the_same_again)
{
    static const char *const keep[] = {"--run", "old", "--keep", NULL};
    struct tw_error err = {0};
    char command[128];
    if (!has_gnuplot())
        return;
    TW_OK_OR_FAIL(draw_with("tiles", "k.svg", keep, &err), err);
    ck_assert(has_file("tiles.dat") && has_file("tiles.gp"));
    char *first = text_of("k.svg");
    snprintf(command, sizeof command, "cd %s && rm k.svg && gnuplot tiles.gp",
             folder);
    ck_assert_int_eq(system(command), 0);
    char *again = text_of("k.svg");
    ck_assert_str_eq(first, again);
    tw_free(first);
    tw_free(again);
}
END_TEST

START_TEST(the_corpus_clock_is_explained)
{
    struct tw_figure *figure = load("dead_curve");
    bool is_said = false;
    for (int i = 0; i < figure->column_count; i++)
        is_said |= strcmp(figure->column_name[i], "tokens_seen") == 0 &&
                   strstr(figure->column_help[i], "skipped rows included");
    ck_assert(is_said);
    tw_figure_free(figure);
}
END_TEST

START_TEST(missing_gnuplot_is_said)
{
    struct tw_error err = {0};
    setenv("PATH", "/no/such", 1);
    TW_FAILS_WITH(draw("layers", "x.pdf", &err), TW_ERR_NOT_FOUND,
                  "gnuplot not found: install the package gnuplot-nox", err);
    TW_OK_OR_FAIL(draw("layers", "x.json", &(struct tw_error){0}), err);
}
END_TEST

START_TEST(wrong_endings_are_usage)
{
    struct tw_error err = {0};
    TW_FAILS_WITH(draw("layers", "x.gif", &err), TW_ERR_USAGE, "x.gif", err);
    TW_FAILS_WITH(draw("all", "x.pdf", &err), TW_ERR_USAGE, "a folder", err);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

int main(void)
{
    Suite *suite = suite_create("figure");
    TCase *core = tcase_create("core");
    tcase_set_timeout(core, 60);
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_test(core, names_and_the_papers_numbers);
    tcase_add_loop_test(core, settings_are_checked, 0, COUNT(settings));
    tcase_add_test(core, bad_heads_are_refused);
    tcase_add_test(core, notes_are_asked_of_the_rows);
    tcase_add_test(core, newest_complete_run_is_picked);
    tcase_add_test(core, runs_and_definitions_are_checked);
    tcase_add_test(core, odd_tokens_are_quoted);
    tcase_add_test(core, data_says_where_it_is_from);
    tcase_add_loop_test(core, each_figure_has_numbers, 0, COUNT(ours));
    tcase_add_loop_test(core, each_figure_is_drawn, 0, COUNT(ours));
    tcase_add_loop_test(core, each_figure_is_drawn_of_three_runs, 0,
                        COUNT(ours));
    tcase_add_loop_test(core, keys_stand_outside, 0, 7);
    tcase_add_test(core, tiles_name_widths_and_runs_once);
    tcase_add_test(core, nothing_fired_is_drawn);
    tcase_add_loop_test(core, no_data_is_an_error_in_every_format, 0, 4);
    tcase_add_loop_test(core, all_takes_what_one_figure_declares, 0,
                        COUNT(settings_of_all));
    tcase_add_test(core, a_failed_drawing_leaves_no_file);
    tcase_add_test(core, kept_files_draw_the_same_again);
    tcase_add_test(core, the_corpus_clock_is_explained);
    tcase_add_test(core, missing_gnuplot_is_said);
    tcase_add_test(core, wrong_endings_are_usage);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
