/* Claims about db/migrate: a file of schema 1 is read as it is, refused for
 * writing, and brought up on request to what a new file has, after a backup;
 * what fails leaves the file as it was. schema-1.sql is version 1's schema. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "db/query.h"
#include "db/store.h"
#include "db/store_internal.h"
#include "tw_check.h"

static char folder[64], path[96], backup[128];

static void raw(const char *file, const char *sql)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(file, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s",
                  sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* One text of one query. */
static void ask(const char *file, const char *sql, char answer[200])
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    ck_assert_int_eq(sqlite3_open(file, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK,
                  "%s", sqlite3_errmsg(db));
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    const char *text = (const char *)sqlite3_column_text(stmt, 0);
    snprintf(answer, 200, "%s", text ? text : "NULL");
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

static void setup(void)
{
    const char *top = getenv("top_srcdir");
    char file[512], *sql = NULL;
    size_t size;
    struct tw_error err = {0};
    strcpy(folder, "/tmp/tw_migrateXXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.sqlite", folder);
    snprintf(backup, sizeof backup, "%s.v1-backup", path);
    snprintf(file, sizeof file, "%s/tests/data/schema-1.sql", top ? top : ".");
    TW_OK_OR_FAIL(tw_file_read(file, 1 << 20, &sql, &size, &err), err);
    raw(path, sql);
    tw_free(sql);
    raw(path, "INSERT INTO run_(run, uuid, kind, status, layers, writer)"
              " VALUES ('old', 'u', 'profile', 'complete', 1, 'w');"
              "INSERT INTO definition_ VALUES (1, 0, 'hidden');"
              "INSERT INTO hist_ VALUES (1, 0, 0, 5, 7);"
              "CREATE VIEW mine AS SELECT run FROM run_");
}

static void teardown(void)
{
    unlink(backup);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no journal, nothing else */
}

START_TEST(read_as_before_but_not_written)
{
    static const enum tw_store_mode modes[] = {TW_STORE_WRITE, TW_STORE_CHANGE};
    struct tw_error err = {0};
    struct tw_store *store;
    struct tw_query *query;
    bool has_row;
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_READ, &store, &err), err);
    ck_assert_int_eq(tw_store_schema(store), 1);
    TW_OK_OR_FAIL(tw_query_open(store, "SELECT tokens FROM all_nnz_histogram",
                                &query, &err),
                  err);
    TW_OK_OR_FAIL(tw_query_next(query, &has_row, &err), err);
    ck_assert_int_eq(tw_query_int(query, 0), 7);
    tw_query_close(query);
    TW_FAILS_WITH(tw_store_check_schema(store, &err), TW_ERR_MISMATCH,
                  "fsck --migrate", err);
    tw_store_close(store);
    for (int i = 0; i < 2; i++)
        TW_FAILS_WITH(tw_store_open(path, modes[i], &store, &err),
                      TW_ERR_MISMATCH, "fsck --migrate", err);
}
END_TEST

/* Columns of every table and text of every view, in one line. */
static const char shape[] =
    "SELECT hex(group_concat(x, char(10))) FROM (SELECT s.name || '.' ||"
    " c.name || ' ' || c.type || c.\"notnull\" || c.pk || ' ' || c.cid AS x"
    " FROM sqlite_schema s, pragma_table_info(s.name) c"
    " WHERE s.type = 'table' UNION ALL SELECT sql FROM sqlite_schema"
    " WHERE type = 'view' AND name <> 'mine' ORDER BY 1)";

static char *shape_of(const char *file)
{
    sqlite3 *db;
    sqlite3_stmt *stmt;
    ck_assert_int_eq(sqlite3_open(file, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, shape, -1, &stmt, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(stmt), SQLITE_ROW);
    char *text = tw_strdup((const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return text;
}

/* Both, made and migrated, must agree: a column added to schema.sql without a
 * step is found here. */
static void has_the_new_shape(void)
{
    char other[128];
    struct tw_error err = {0};
    struct tw_store *store;
    snprintf(other, sizeof other, "%s/new.sqlite", folder);
    TW_OK_OR_FAIL(tw_store_open(other, TW_STORE_WRITE, &store, &err), err);
    tw_store_close(store);
    char *made = shape_of(other), *migrated = shape_of(path);
    ck_assert_str_eq(made, migrated);
    tw_free(made);
    tw_free(migrated);
    unlink(other);
}

START_TEST(migrated_is_as_new)
{
    struct tw_error err = {0};
    char answer[200];
    int from = 0;
    struct stat before, after;
    chmod(path, 0640);
    stat(path, &before);
    TW_OK_OR_FAIL(tw_store_migrate(path, &from, &err), err);
    ck_assert_int_eq(from, 1);
    has_the_new_shape();
    ask(path, "SELECT run || ledger IS NULL FROM run_info", answer);
    ck_assert_str_eq(answer, "1");
    ask(path, "SELECT tokens FROM all_nnz_histogram", answer);
    ck_assert_str_eq(answer, "7");
    ask(path, "SELECT run FROM mine", answer); /* the user's own view */
    ck_assert_str_eq(answer, "old");
    ask(backup, "PRAGMA user_version", answer);
    ck_assert_str_eq(answer, "1");
    ask(backup, "SELECT tokens FROM hist_", answer);
    ck_assert_str_eq(answer, "7");
    stat(backup, &after);
    ck_assert_int_eq(after.st_mode & 0777, before.st_mode & 0777);
    /* Again: nothing to do. */
    TW_OK_OR_FAIL(tw_store_migrate(path, &from, &err), err);
    ck_assert_int_eq(from, 2);
    struct tw_store *store;
    TW_OK_OR_FAIL(tw_store_open(path, TW_STORE_WRITE, &store, &err), err);
    tw_store_close(store);
}
END_TEST

START_TEST(development_builds_had_parts_already)
{
    struct tw_error err = {0};
    int from = 0;
    raw(path, "ALTER TABLE run_ ADD COLUMN ledger TEXT;"
              "UPDATE run_ SET ledger = 'nnz';"
              "CREATE TABLE ledger_(block_id INTEGER NOT NULL, kind INTEGER"
              " NOT NULL, def_ord INTEGER NOT NULL, layer INTEGER NOT NULL,"
              " data BLOB NOT NULL, UNIQUE (block_id, kind, def_ord, layer));"
              "INSERT INTO ledger_ VALUES (1, 2, 3, 4, x'05')");
    TW_OK_OR_FAIL(tw_store_migrate(path, &from, &err), err);
    char answer[200];
    has_the_new_shape();
    ask(path, "SELECT ledger || (SELECT count(*) FROM ledger_) FROM run_",
        answer);
    ck_assert_str_eq(answer, "nnz1");
}
END_TEST

static const struct {
    const char *spoil; /* makes the migration fail */
    enum tw_status status;
    const char *words;
} failures[] = {
    {"CREATE TABLE training_steps(x)", TW_ERR_DB, "training_steps"},
    {"DROP TABLE run_", TW_ERR_DB, "no such table"},
    {"PRAGMA user_version = 9", TW_ERR_MISMATCH, "newer"},
};

START_TEST(a_failure_changes_nothing)
{
    struct tw_error err = {0};
    char *before, *after;
    size_t size, later;
    int from = 0;
    raw(path, "PRAGMA journal_mode = DELETE");
    raw(path, failures[_i].spoil);
    TW_OK_OR_FAIL(tw_file_read(path, 1 << 22, &before, &size, &err), err);
    TW_FAILS_WITH(tw_store_migrate(path, &from, &err), failures[_i].status,
                  failures[_i].words, err);
    TW_OK_OR_FAIL(tw_file_read(path, 1 << 22, &after, &later, &err), err);
    ck_assert_uint_eq(size, later);
    ck_assert_mem_eq(before, after, size);
    ck_assert_int_ne(access(backup, F_OK), 0);
    tw_free(before);
    tw_free(after);
}
END_TEST

START_TEST(a_backup_is_never_overwritten)
{
    struct tw_error err = {0};
    char answer[200];
    int from = 0;
    raw(backup, "CREATE TABLE precious(x)");
    TW_FAILS_WITH(tw_store_migrate(path, &from, &err), TW_ERR_EXISTS,
                  "x.sqlite.v1-backup: a backup is there already", err);
    ask(backup, "SELECT name FROM sqlite_schema", answer);
    ck_assert_str_eq(answer, "precious");
    ask(path, "PRAGMA user_version", answer);
    ck_assert_str_eq(answer, "1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("migrate");
    TCase *core = tcase_create("core");
    tcase_add_checked_fixture(core, setup, teardown);
    tcase_add_test(core, read_as_before_but_not_written);
    tcase_add_test(core, migrated_is_as_new);
    tcase_add_test(core, development_builds_had_parts_already);
    tcase_add_test(core, a_backup_is_never_overwritten);
    tcase_add_loop_test(core, a_failure_changes_nothing, 0,
                        sizeof failures / sizeof *failures);
    suite_add_tcase(suite, core);
    return tw_run_suite(suite);
}
