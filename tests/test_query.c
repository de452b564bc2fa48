/* Claims about db/query: one reading statement at a time, cells as they are,
 * temporary tables on a read-only store, and views that search by key. */
#include <config.h>

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "db/query.h"
#include "db/store_internal.h"
#include "tw_check.h"

static char path[64];
static struct tw_store *store;

static void setup(void)
{
    struct tw_error err = {0};
    strcpy(path, "/tmp/tw_queryXXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
    tw_store_close(store);
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_READ, &store, &err), err);
}

static void teardown(void)
{
    tw_store_close(store);
    unlink(path);
}

static const struct {
    const char *sql, *words; /* words NULL: allowed */
} statements[] = {
    {"SELECT 1", NULL},
    {"SELECT 1; -- and a comment", NULL},
    {"SELECT 1;; /* c */ ;\n", NULL},
    {"EXPLAIN QUERY PLAN SELECT * FROM layer_stats", NULL},
    {"PRAGMA table_info(layer_stats)", NULL},
    {"SELECT 1; SELECT 2", "more than one"},
    {"SELECT 1; nonsense", "more than one"},
    {"", "no SQL statement"},
    {"-- only a comment", "no SQL statement"},
    {"SELEC 1", "syntax error"},
    {"SELECT nnz FROM layer_stats", "no such column: nnz"},
    {"DELETE FROM run_", "would write"},
    {"CREATE TEMP TABLE t(x)", "would write"},
    {"PRAGMA user_version = 3", "would write"},
    {"VACUUM", "would write"},
};

START_TEST(one_reading_statement)
{
    struct tw_error err = {0};
    struct tw_query *query = NULL;
    if (!statements[_i].words) {
        TW_OK_OR_FAIL(tw_query_open(store, statements[_i].sql, &query, &err),
                      err);
        tw_query_close(query);
        return;
    }
    TW_FAILS_WITH(tw_query_open(store, statements[_i].sql, &query, &err),
                  TW_ERR_DB, statements[_i].words, err);
    ck_assert_ptr_null(query);
}
END_TEST

START_TEST(other_files_cannot_be_attached)
{
    struct tw_error err = {0};
    TW_FAILS_WITH(tw_query_exec(store, "ATTACH '/tmp/other' AS o", &err),
                  TW_ERR_DB, "too many attached", err);
}
END_TEST

START_TEST(cells_come_as_they_are)
{
    struct tw_error err = {0};
    struct tw_query *query;
    bool has_row;
    size_t size;
    TW_OK_OR_FAIL(tw_query_open(store,
                                "SELECT 9223372036854775807 AS big, 0.5, 'a',"
                                " x'00ff', NULL, x'', :p, :q, :r", &query,
                                &err), err);
    TW_OK_OR_FAIL(tw_query_bind_text(query, ":p", "it's", &err), err);
    TW_OK_OR_FAIL(tw_query_bind_int(query, ":q", -3, &err), err);
    TW_OK_OR_FAIL(tw_query_bind_real(query, ":r", NAN, &err), err);
    TW_OK_OR_FAIL(tw_query_bind_int(query, ":absent", 1, &err), err);
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    ck_assert(has_row);
    ck_assert_int_eq(tw_query_columns(query), 9);
    ck_assert_str_eq(tw_query_name(query, 0), "big");
    static const enum tw_cell types[] = {
        TW_CELL_INT, TW_CELL_REAL, TW_CELL_TEXT, TW_CELL_BLOB, TW_CELL_NULL,
        TW_CELL_BLOB, TW_CELL_TEXT, TW_CELL_INT, TW_CELL_NULL};
    for (int c = 0; c < 9; c++)
        ck_assert_int_eq(tw_query_type(query, c), types[c]);
    ck_assert_int_eq(tw_query_int(query, 0), INT64_MAX);
    ck_assert_double_eq(tw_query_real(query, 1), 0.5);
    ck_assert_mem_eq(tw_query_text(query, 3, &size), "\0\xff", 2);
    ck_assert_uint_eq(size, 2);
    ck_assert_ptr_null(tw_query_text(query, 4, &size));
    ck_assert_ptr_nonnull(tw_query_text(query, 5, &size));
    ck_assert_uint_eq(size, 0);
    ck_assert_str_eq(tw_query_text(query, 6, NULL), "it's");
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    ck_assert(!has_row);
    tw_query_close(query);
}
END_TEST

START_TEST(temporary_tables_on_a_read_only_store)
{
    struct tw_error err = {0};
    struct tw_query *query;
    bool has_row;
    TW_OK_OR_FAIL(tw_query_exec(store, "CREATE TEMP TABLE arg(name, value);"
                                       "INSERT INTO arg VALUES ('a', 7)",
                                &err), err);
    TW_OK_OR_FAIL(tw_query_open(store, "SELECT value FROM arg", &query, &err),
                  err);
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    ck_assert(has_row && tw_query_int(query, 0) == 7);
    tw_query_close(query);
    TW_FAILS_WITH(tw_query_exec(store, "DELETE FROM run_", &err), TW_ERR_FULL,
                  "read-only", err);
}
END_TEST

/* Rows of other runs are never walked: every step of the plan is a SEARCH by
 * key or a scan of the few definitions. */
static const char *const searched[] = {
    "SELECT * FROM token_stats WHERE run = 'r' ORDER BY mean_nnz LIMIT 6",
    "SELECT * FROM layer_token_stats WHERE run = 'r' AND layer = 3",
    "SELECT * FROM all_layer_token_stats WHERE run = 'r' AND layer = 3",
    "SELECT * FROM layer_stats WHERE run = 'r'",
    "SELECT * FROM layer_class_stats WHERE run = 'r'",
    "SELECT * FROM layer_blocks WHERE run = 'r'",
    "SELECT * FROM position_stats WHERE run = 'r'",
    "SELECT * FROM layer_position_stats WHERE run = 'r' AND layer = 1",
    "SELECT * FROM neuron_stats WHERE run = 'r' AND layer = 1",
    "SELECT * FROM nnz_histogram WHERE run = 'r'",
    "SELECT * FROM dead_curve WHERE run = 'r'",
    "SELECT * FROM tile_histogram WHERE run = 'r' AND layer = 1",
    "SELECT * FROM magnitude_histogram WHERE run = 'r'",
};

START_TEST(views_search_by_run)
{
    struct tw_error err = {0};
    struct tw_query *query;
    char sql[200];
    bool has_row;
    snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", searched[_i]);
    TW_OK_OR_FAIL(tw_query_open(store, sql, &query, &err), err);
    for (;;) {
        TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
        if (!has_row)
            break;
        const char *step = tw_query_text(query, 3, NULL);
        ck_assert_msg(strncmp(step, "SCAN", 4) != 0, "%s: %s", searched[_i],
                      step);
        ck_assert_msg(!strstr(step, "AUTOMATIC"), "%s: %s", searched[_i],
                      step);
    }
    tw_query_close(query);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("query");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_loop_test(core, one_reading_statement, 0,
                        sizeof statements / sizeof *statements);
    tcase_add_test(core, other_files_cannot_be_attached);
    tcase_add_test(core, cells_come_as_they_are);
    tcase_add_test(core, temporary_tables_on_a_read_only_store);
    tcase_add_loop_test(core, views_search_by_run, 0,
                        sizeof searched / sizeof *searched);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
