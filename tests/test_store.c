/* Claims about db/store: new files are ours, strangers' files are refused
 * unchanged, a kill loses nothing that was committed, a full disk is named.
 * Rows of counts are test_store_rows.c's. */
#include <config.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "db/query.h"
#include "db/store.h"
#include "db/store_internal.h"
#include "store_fixture.h"
#include "tw_check.h"

static int64_t make_run(struct tw_store *store, const char *name)
{
    struct tw_error err = {0};
    int64_t run = 0;
    TW_OK_OR_FAIL(tw_store_run_create(store, name, "profile", &run, &err), err);
    return run;
}

static void raw(const char *sql)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
                  sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void write_file(const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

START_TEST(new_file_is_ours_and_opens_again)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    ck_assert_str_eq(tw_store_path(store), path);
    int64_t run = make_run(store, "a"), found = 0;
    tw_store_close(store);
    store = open_store(TW_STORE_READ);
    TW_OK_OR_FAIL(tw_store_run_find(store, "a", &found, &err), err);
    ck_assert_int_eq(found, run);
    TW_FAILS_WITH(tw_store_run_find(store, "b", &found, &err), TW_ERR_NOT_FOUND,
                  "no run 'b'", err);
    tw_store_close(store);
    char *text;
    size_t size;
    TW_OK_OR_FAIL(tw_file_read(path, 1 << 24, &text, &size, &err), err);
    ck_assert_mem_eq(text + 68, "TwEL", 4);
    ck_assert_mem_eq(text + 60, "\0\0\0\2", 4);
    tw_free(text);
}
END_TEST

START_TEST(empty_file_counts_as_new)
{
    struct tw_error err = {0};
    struct tw_store *store;
    write_file("", 0);
    TW_FAILS_WITH(tw_store_open(path, TW_STORE_READ, &store, &err),
                  TW_ERR_NOT_FOUND, "x.sqlite: an empty file", err);
    tw_store_close(open_store(TW_STORE_WRITE));
    tw_store_close(open_store(TW_STORE_READ));
}
END_TEST

static const struct {
    const char *sql; /* NULL: a text file */
    enum tw_status status;
    const char *words;
} strangers[] = {
    {"CREATE TABLE t(x); INSERT INTO t VALUES (1)", TW_ERR_MISMATCH,
     "x.sqlite: another program's database"},
    {"PRAGMA application_id=7; CREATE TABLE run_(x)", TW_ERR_MISMATCH,
     "another program's database"},
    {"PRAGMA application_id=1417102668; PRAGMA user_version=7;"
     "CREATE TABLE run_(x)",
     TW_ERR_MISMATCH, "x.sqlite: schema 7 is newer than this program's 2"},
    {"PRAGMA application_id=1417102668; CREATE TABLE run_(x)", TW_ERR_MISMATCH,
     "schema 0 is unknown"},
    {"PRAGMA journal_mode=WAL; CREATE TABLE t(x)", TW_ERR_MISMATCH,
     "another program's database"},
    {NULL, TW_ERR_DB, "x.sqlite: file is not a database"},
};

START_TEST(strangers_are_refused_unchanged)
{
    struct tw_error err = {0};
    struct tw_store *store = NULL;
    struct stat before, after;
    char *was, *is;
    size_t was_size, is_size;
    if (strangers[_i].sql)
        raw(strangers[_i].sql);
    else
        write_file("SQLite format 2 is not what this file has to say\n", 49);
    TW_OK_OR_FAIL(tw_file_read(path, 1 << 24, &was, &was_size, &err), err);
    ck_assert_int_eq(stat(path, &before), 0);
    for (int mode = TW_STORE_READ; mode <= TW_STORE_WRITE; mode++) {
        TW_FAILS_WITH(tw_store_open(path, mode, &store, &err),
                      strangers[_i].status, strangers[_i].words, err);
        ck_assert_ptr_null(store);
    }
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_file_read(path, 1 << 24, &is, &is_size, &err), err);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_uint_eq(was_size, is_size);
    ck_assert_mem_eq(was, is, was_size);
    ck_assert(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
              before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    tw_free(was);
    tw_free(is);
}
END_TEST

START_TEST(places_without_a_file_are_named)
{
    struct tw_error err = {0};
    struct tw_store *store;
    char missing[128];
    snprintf(missing, sizeof missing, "%s/no/x.sqlite", folder);
    TW_FAILS_WITH(tw_store_open(missing, TW_STORE_WRITE, &store, &err),
                  TW_ERR_DB, "no/x.sqlite: its folder does not exist", err);
    TW_FAILS_WITH(tw_store_open(path, TW_STORE_READ, &store, &err),
                  TW_ERR_NOT_FOUND, "x.sqlite", err);
    TW_FAILS_WITH(tw_store_open(folder, TW_STORE_WRITE, &store, &err),
                  TW_ERR_DB, "not a regular file", err);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(missing_tables_are_an_error_with_the_path)
{
    struct tw_error err = {0};
    struct tw_store *store;
    int64_t run;
    raw("PRAGMA application_id=1417102668; PRAGMA user_version=2;"
        "CREATE TABLE t(x)");
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
    TW_FAILS_WITH(tw_store_run_find(store, "a", &run, &err), TW_ERR_DB,
                  "x.sqlite: no such table: run_", err);
    TW_FAILS_WITH(tw_store_put(store, TW_TABLE_TILE, (int64_t[5]){1}, &err),
                  TW_ERR_DB, "x.sqlite: no such table: tile_", err);
    tw_store_close(store);
}
END_TEST

START_TEST(triggers_of_strangers_do_not_run)
{
    struct tw_error err = {0};
    int64_t tokens = 0;
    struct tw_store *store = open_store(TW_STORE_WRITE);
    make_run(store, "victim");
    tw_store_close(store);
    raw("CREATE TRIGGER t AFTER INSERT ON tile_ BEGIN"
        " UPDATE run_ SET tokens = 666; END");
    store = open_store(TW_STORE_WRITE);
    TW_OK_OR_FAIL(
        tw_store_put(store, TW_TABLE_TILE, (int64_t[]){1, 0, 64, 3, 9}, &err),
        err);
    TW_OK_OR_FAIL(tw_store_get_int(store, 1, "tokens", &tokens, &err), err);
    ck_assert_int_eq(tokens, TW_NULL);
    tw_store_close(store);
}
END_TEST

START_TEST(run_row_holds_what_is_set)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    int64_t run = make_run(store, "a"), value = 0, other;
    char *text = NULL;
    TW_FAILS_WITH(tw_store_run_create(store, "a", "profile", &other, &err),
                  TW_ERR_EXISTS, "run 'a' exists already", err);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_store_get_text(store, run, "status", &text, &err), err);
    ck_assert_str_eq(text, "interrupted");
    tw_free(text);
    TW_OK_OR_FAIL(tw_store_get_text(store, run, "uuid", &text, &err), err);
    ck_assert_uint_eq(strlen(text), 36);
    ck_assert_int_eq(text[14], '4');
    ck_assert_ptr_nonnull(strchr("89ab", text[19]));
    tw_free(text);
    TW_OK_OR_FAIL(tw_store_get_text(store, run, "model", &text, &err), err);
    ck_assert_ptr_null(text);
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "model", "m'\"\xff", &err),
                  err);
    TW_OK_OR_FAIL(tw_store_get_text(store, run, "model", &text, &err), err);
    ck_assert_str_eq(text, "m'\"\xff");
    tw_free(text);
    TW_OK_OR_FAIL(tw_store_set_int(store, run, "tokens", INT64_MAX, &err), err);
    TW_OK_OR_FAIL(tw_store_get_int(store, run, "tokens", &value, &err), err);
    ck_assert_int_eq(value, INT64_MAX);
    TW_OK_OR_FAIL(tw_store_set_real(store, run, "mean_nll", 0.0 / 0.0, &err),
                  err);
    TW_OK_OR_FAIL(tw_store_get_text(store, run, "mean_nll", &text, &err), err);
    ck_assert_ptr_null(text);
    tw_store_close(store);
}
END_TEST

static int64_t count(struct tw_store *store, const char *sql)
{
    struct tw_error err = {0};
    struct tw_query *query;
    bool has_row;
    TW_OK_OR_FAIL(tw_query_open(store, sql, &query, &err), err);
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    int64_t value = has_row ? tw_query_int(query, 0) : -1;
    tw_query_close(query);
    return value;
}

static void put_texts(struct tw_store *store, int64_t run)
{
    struct tw_error err = {0};
    int64_t tokenizer;
    bool is_new;
    TW_OK_OR_FAIL(tw_store_put_definition(store, run, 0, "hidden", &err), err);
    TW_OK_OR_FAIL(tw_store_put_tag(store, run, "k", "v", &err), err);
    struct tw_store_corpus corpus = {
        .file = "a.txt", .documents = 3, .tokens = TW_NULL, .bytes = 7};
    TW_OK_OR_FAIL(tw_store_put_corpus(store, run, &corpus, &err), err);
    TW_OK_OR_FAIL(
        tw_store_tokenizer(store, run, "hash", &tokenizer, &is_new, &err), err);
    if (is_new)
        TW_OK_OR_FAIL(tw_store_put_piece(store, tokenizer, 0, "<0xE2>",
                                         "\xe2\0", 2, false, &err),
                      err);
    struct tw_store_parity parity = {.layer = TW_NULL, .cells = 4};
    TW_OK_OR_FAIL(tw_store_put_parity(store, run, &parity, &err), err);
    struct tw_store_bench bench = {.target = "ffn",
                                   .name = "n",
                                   .path = "p",
                                   .rel_error = 0.5,
                                   .peak_bytes = TW_NULL};
    TW_OK_OR_FAIL(tw_store_put_bench(store, run, &bench, &err), err);
    TW_OK_OR_FAIL(tw_store_put_bench(store, run, &bench, &err), err);
    struct tw_store_timing timing = {.path = "dense", .ns_median = 5};
    TW_OK_OR_FAIL(tw_store_put_timing(store, run, &timing, &err), err);
}

START_TEST(deleting_a_run_leaves_the_others)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    int64_t a = make_run(store, "a"), b = make_run(store, "b");
    put_texts(store, a);
    put_texts(store, b);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM piece_"), 1);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM bench_results"
                                  " WHERE rel_error = 0.5"
                                  " AND peak_bytes IS NULL"),
                     4);
    TW_OK_OR_FAIL(tw_store_run_delete(store, a, &err), err);
    static const char *const views[] = {"run_info", "run_tags", "corpora",
                                        "parity", "layer_timings"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char sql[80];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", views[i]);
        ck_assert_msg(count(store, sql) == 1, "%s", views[i]);
    }
    ck_assert_int_eq(count(store, "SELECT length(bytes) FROM piece_"), 2);
    TW_OK_OR_FAIL(tw_store_run_delete(store, b, &err), err);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM piece_"), 0);
    tw_store_close(store);
}
END_TEST

START_TEST(derived_columns_reach_the_view)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    int64_t run = make_run(store, "a");
    TW_OK_OR_FAIL(tw_store_set_text(store, run, "active", "hidden", &err), err);
    TW_OK_OR_FAIL(tw_store_put_definition(store, run, 0, "hidden", &err), err);
    TW_OK_OR_FAIL(tw_store_put_definition(store, run, 1, "gate", &err), err);
    for (int64_t def = 0; def < 2; def++)
        TW_OK_OR_FAIL(
            tw_store_put(store, TW_TABLE_LAYER,
                         (int64_t[]){run, def, 0, 100, 10, 250, 0, 70, 655360},
                         &err),
            err);
    TW_OK_OR_FAIL(tw_store_put_derived(store, run, 0, 0, 25.0, 1.0, 0.0 / 0.0,
                                       (double[]){1, 2, 3, 4}, 20, 1, 2, &err),
                  err);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM layer_stats"), 1);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM all_layer_stats"), 2);
    ck_assert_int_eq(count(store, "SELECT sparsity = 0.75 AND dead = 20 AND"
                                  " dead_fraction = 0.2 AND mean_l1 = 1.0 AND"
                                  " std_nnz IS NULL AND p999_nnz = 4"
                                  " FROM layer_stats"),
                     1);
    tw_store_close(store);
}
END_TEST

START_TEST(second_writer_is_told_so)
{
    struct tw_error err = {0};
    struct tw_store *one = open_store(TW_STORE_WRITE);
    struct tw_store *two = open_store(TW_STORE_WRITE);
    twp_store_busy_ms(two, 10);
    TW_OK_OR_FAIL(tw_store_begin(one, &err), err);
    TW_FAILS_WITH(tw_store_begin(two, &err), TW_ERR_BUSY,
                  "x.sqlite: another program is writing", err);
    tw_store_close(two);
    tw_store_rollback(one);
    tw_store_close(one);
}
END_TEST

START_TEST(commit_that_meets_a_reader_can_be_repeated)
{
    struct tw_error err = {0};
    struct tw_query *query;
    bool has_row;
    struct tw_store *writer = open_store(TW_STORE_WRITE);
    make_run(writer, "a");
    make_run(writer, "b");
    struct tw_store *reader = open_store(TW_STORE_READ);
    TW_OK_OR_FAIL(
        tw_query_open(reader, "SELECT run FROM run_info", &query, &err), err);
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    twp_store_busy_ms(writer, 10);
    TW_OK_OR_FAIL(tw_store_begin(writer, &err), err);
    make_run(writer, "c");
    TW_FAILS_WITH(tw_store_commit(writer, &err), TW_ERR_BUSY,
                  "x.sqlite: another program is reading", err);
    tw_query_close(query);
    err = (struct tw_error){0};
    TW_OK_OR_FAIL(tw_store_commit(writer, &err), err);
    tw_store_close(reader);
    tw_store_close(writer);
}
END_TEST

/* A child is killed with its pages half written: the journal is hot. */
static void leave_hot_journal(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct tw_store *store = open_store(TW_STORE_WRITE);
        struct tw_error err = {0};
        TW_OK_OR_FAIL(twp_exec(store, "PRAGMA cache_size=2", &err), err);
        TW_OK_OR_FAIL(tw_store_begin(store, &err), err);
        TW_OK_OR_FAIL(tw_store_set_text(store, 1, "model", "lost", &err), err);
        for (int64_t i = 0; i < 20000; i++)
            TW_OK_OR_FAIL(tw_store_put(store, TW_TABLE_HIST,
                                       (int64_t[]){1, 0, 0, i, i}, &err),
                          err);
        raise(SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

START_TEST(reader_rolls_a_hot_journal_back)
{
    char journal[128];
    struct tw_store *store = open_store(TW_STORE_WRITE);
    make_run(store, "a");
    tw_store_close(store);
    leave_hot_journal();
    snprintf(journal, sizeof journal, "%s-journal", path);
    ck_assert_int_eq(access(journal, F_OK), 0);
    store = open_store(TW_STORE_READ);
    ck_assert_int_eq(count(store, "SELECT count(*) FROM hist_"), 0);
    ck_assert_int_eq(count(store, "SELECT model IS NULL FROM run_info"), 1);
    ck_assert_int_ne(access(journal, F_OK), 0);
    tw_store_close(store);
}
END_TEST

/* As SQLite leaves it when a file's first commit is killed: the pages are
 * there, the journal says that there were none before. */
static void leave_first_commit(void)
{
    static const unsigned char head[] = {
        0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0, 0, 0, 0,  0,
        0,    0,    0,    0,    0,    0,    0,    0,    2, 0, 0, 0, 16, 0};
    unsigned char sector[512] = {0};
    char journal[128];
    tw_store_close(open_store(TW_STORE_WRITE));
    memcpy(sector, head, sizeof head);
    snprintf(journal, sizeof journal, "%s-journal", path);
    FILE *file = fopen(journal, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(sector, 1, sizeof sector, file), sizeof sector);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_killed_first_commit_leaves_an_empty_file)
{
    struct tw_store *store = NULL;
    struct tw_error err = {0};
    leave_first_commit();
    TW_FAILS_WITH(tw_store_open(path, TW_STORE_READ, &store, &err),
                  TW_ERR_NOT_FOUND, "x.sqlite: an empty file", err);
    leave_first_commit();
    store = open_store(TW_STORE_WRITE);
    make_run(store, "a");
    tw_store_close(store);
}
END_TEST

/* /dev/full cannot hold a database; a file size limit (EFBIG) is what a test
 * can have without root, a full disk is SQLite's own SQLITE_FULL: here by a
 * page limit. */
START_TEST(full_disk_is_named)
{
    struct tw_error err = {0};
    struct tw_store *store = open_store(TW_STORE_WRITE);
    TW_OK_OR_FAIL(twp_exec(store, "PRAGMA max_page_count=1", &err), err);
    enum tw_status status = tw_store_begin(store, &err);
    for (int64_t i = 0; i < 20000 && status == TW_OK; i++)
        status = tw_store_put(store, TW_TABLE_HIST, (int64_t[]){1, 0, 0, i, i},
                              &err);
    ck_assert_int_eq(status, TW_ERR_FULL);
    ck_assert_ptr_nonnull(strstr(err.text, "x.sqlite: no space left"));
    tw_store_close(store);
}
END_TEST

START_TEST(read_only_file_is_named)
{
    struct tw_error err = {0};
    struct tw_store *store;
    if (geteuid() == 0)
        return; /* root may write to any file */
    tw_store_close(open_store(TW_STORE_WRITE));
    ck_assert_int_eq(chmod(path, 0444), 0);
    TW_FAILS_WITH(tw_store_open(path, TW_STORE_WRITE, &store, &err),
                  TW_ERR_FULL, "x.sqlite: read-only", err);
    tw_store_close(open_store(TW_STORE_READ));
}
END_TEST

START_TEST(no_memory_is_reported)
{
    struct tw_error err = {0};
    struct tw_store *store = NULL;
    for (int n = 0; n < 2; n++) {
        tw_alloc_fail_after(n);
        TW_FAILS_WITH(tw_store_open(path, TW_STORE_WRITE, &store, &err),
                      TW_ERR_NOMEM, "out of memory", err);
        tw_alloc_fail_after(-1);
    }
    ck_assert_ptr_null(store);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *core = tcase_create("core"), *errors = tcase_create("errors");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_checked_fixture(errors, setup, teardown);
    tcase_add_test(core, new_file_is_ours_and_opens_again);
    tcase_add_test(core, empty_file_counts_as_new);
    tcase_add_test(core, run_row_holds_what_is_set);
    tcase_add_test(core, deleting_a_run_leaves_the_others);
    tcase_add_test(core, derived_columns_reach_the_view);
    tcase_add_test(core, reader_rolls_a_hot_journal_back);
    tcase_add_test(core, a_killed_first_commit_leaves_an_empty_file);
    tcase_add_loop_test(errors, strangers_are_refused_unchanged, 0,
                        sizeof strangers / sizeof *strangers);
    tcase_add_test(errors, places_without_a_file_are_named);
    tcase_add_test(errors, missing_tables_are_an_error_with_the_path);
    tcase_add_test(errors, triggers_of_strangers_do_not_run);
    tcase_add_test(errors, second_writer_is_told_so);
    tcase_add_test(errors, commit_that_meets_a_reader_can_be_repeated);
    tcase_add_test(errors, full_disk_is_named);
    tcase_add_test(errors, read_only_file_is_named);
    tcase_add_test(errors, no_memory_is_reported);
    suite_add_tcase(suite, core);
    suite_add_tcase(suite, errors);
    return tw_run_suite(suite);
}
