/* A run of one file into another: plain reads there, plain writes here, so that
 * a stranger's file is never attached to ours. */
#include <config.h>

#include "db/store.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "db/ledger.h"
#include "db/store_internal.h"

enum { MAX_TEXT = 2000 };

/* "a, b, c" and "?1, ?2, ?3" of a table's columns but run_id, which is ?1
 * here; ours, since the other file's may be anything. */
static enum tw_status list_columns(struct tw_store *store, const char *table,
                                   char names[MAX_TEXT], char marks[MAX_TEXT],
                                   struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = twp_prepare(
        store, &stmt, err,
        "SELECT name FROM pragma_table_info(?1) WHERE name <> 'run_id'", "t",
        table);
    if (status != TW_OK)
        return status;
    size_t used = 0, marked = 0;
    int code, number = 2;
    names[0] = marks[0] = '\0';
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        used += (size_t)snprintf(names + used, MAX_TEXT - used, ", %s",
                                 (const char *)sqlite3_column_text(stmt, 0));
        marked += (size_t)snprintf(marks + marked, MAX_TEXT - marked, ", ?%d",
                                   number++);
        if (used >= MAX_TEXT || marked >= MAX_TEXT)
            break;
    }
    if (code == SQLITE_ROW)
        status = tw_error_set(err, TW_ERR_DB, "%s: %s has too many columns",
                              store->path, table);
    else if (code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

/* A statement whose parameters `pump` binds. */
static enum tw_status prepare_write(struct tw_store *to, const char *sql,
                                    sqlite3_stmt **write, struct tw_error *err)
{
    int code = sqlite3_prepare_v2(to->db, sql, -1, write, NULL);
    return code == SQLITE_OK ? TW_OK : twp_fail(to->db, to->path, code, err);
}

/* Every row of `read` into `write`, whose first parameter is `key`. */
static enum tw_status pump(struct tw_store *to, sqlite3_stmt *write,
                           int64_t key, struct tw_store *from,
                           sqlite3_stmt *read, struct tw_error *err)
{
    int code;
    while ((code = sqlite3_step(read)) == SQLITE_ROW) {
        sqlite3_bind_int64(write, 1, key);
        for (int i = 0; i < sqlite3_column_count(read); i++)
            sqlite3_bind_value(write, i + 2, sqlite3_column_value(read, i));
        int done = sqlite3_step(write);
        sqlite3_reset(write);
        if (done != SQLITE_DONE)
            return twp_fail(to->db, to->path, done, err);
    }
    return code == SQLITE_DONE ? TW_OK
                               : twp_fail(from->db, from->path, code, err);
}

enum tw_status twp_copy_rows(struct tw_store *to, int64_t to_key,
                             struct tw_store *from, int64_t from_key,
                             const char *table, const char *key,
                             const char *names, const char *marks,
                             struct tw_error *err)
{
    char read_sql[MAX_TEXT + 200], write_sql[2 * MAX_TEXT + 200];
    sqlite3_stmt *read = NULL, *write = NULL;
    snprintf(read_sql, sizeof read_sql, "SELECT %s FROM %s WHERE %s = ?1",
             names + 2, table, key);
    snprintf(write_sql, sizeof write_sql, "INSERT INTO %s(%s%s) VALUES (?1%s)",
             table, key, names, marks);
    enum tw_status status =
        twp_prepare(from, &read, err, read_sql, "i", from_key);
    if (status == TW_OK)
        status = prepare_write(to, write_sql, &write, err);
    if (status == TW_OK)
        status = pump(to, write, to_key, from, read, err);
    sqlite3_finalize(read);
    sqlite3_finalize(write);
    return status;
}

static enum tw_status copy_table(struct tw_store *to, int64_t run,
                                 struct tw_store *from, int64_t from_run,
                                 const char *table, struct tw_error *err)
{
    char names[MAX_TEXT], marks[MAX_TEXT];
    enum tw_status status = list_columns(to, table, names, marks, err);
    if (status == TW_OK)
        status = twp_copy_rows(to, run, from, from_run, table, "run_id", names,
                           marks, err);
    return status;
}

static enum tw_status copy_pieces(struct tw_store *to, int64_t run,
                                  struct tw_store *from, int64_t from_run,
                                  struct tw_error *err)
{
    int64_t theirs, ours;
    bool is_new = false;
    char *hash = NULL;
    enum tw_status status =
        tw_store_get_int(from, from_run, "tokenizer_id", &theirs, err);
    if (status == TW_OK)
        status =
            tw_store_get_text(from, from_run, "tokenizer_hash", &hash, err);
    if (status == TW_OK && hash && theirs != TW_NULL)
        status = tw_store_tokenizer(to, run, hash, &ours, &is_new, err);
    if (status == TW_OK && is_new)
        status = twp_copy_rows(to, ours, from, theirs, "piece_", "tokenizer_id",
                           ", token_id, token, bytes, special",
                           ", ?2, ?3, ?4, ?5", err);
    tw_free(hash);
    return status;
}

/* The run's own row: a new one, filled. */
static enum tw_status copy_head(struct tw_store *to, struct tw_store *from,
                                int64_t from_run, int64_t *run,
                                struct tw_error *err)
{
    char *name = NULL, *kind = NULL;
    char names[MAX_TEXT], marks[MAX_TEXT], sql[2 * MAX_TEXT + 100];
    sqlite3_stmt *read = NULL, *write = NULL;
    enum tw_status status =
        tw_store_get_text(from, from_run, "run", &name, err);
    if (status == TW_OK)
        status = tw_store_get_text(from, from_run, "kind", &kind, err);
    if (status == TW_OK)
        status = tw_store_run_create(to, name ? name : "", kind ? kind : "",
                                     run, err);
    if (status == TW_OK)
        status = list_columns(to, "run_", names, marks, err);
    if (status == TW_OK) {
        snprintf(sql, sizeof sql, "SELECT %s FROM run_ WHERE run_id = ?1",
                 names + 2);
        status = twp_prepare(from, &read, err, sql, "i", from_run);
    }
    if (status == TW_OK) {
        snprintf(sql, sizeof sql,
                 "UPDATE run_ SET (%s) = (%s) WHERE run_id = ?1", names + 2,
                 marks + 2);
        status = prepare_write(to, sql, &write, err);
    }
    if (status == TW_OK)
        status = pump(to, write, *run, from, read, err);
    sqlite3_finalize(read);
    sqlite3_finalize(write);
    tw_free(name);
    tw_free(kind);
    return status;
}

enum tw_status tw_store_run_copy(struct tw_store *to, struct tw_store *from,
                                 int64_t from_run, enum tw_copy what,
                                 int64_t *run, struct tw_error *err)
{
    static const char *const facts[] = {"definition_", "run_tag_", "corpus_"};
    enum tw_status status = copy_head(to, from, from_run, run, err);
    if (status == TW_OK)
        status = tw_store_set_int(to, *run, "tokenizer_id", TW_NULL, err);
    if (status == TW_OK)
        status = copy_pieces(to, *run, from, from_run, err);
    for (size_t i = 0; i < sizeof facts / sizeof *facts && status == TW_OK; i++)
        status = copy_table(to, *run, from, from_run, facts[i], err);
    for (int i = 0; what == TW_COPY_ALL && status == TW_OK; i++) {
        const char *table = twp_result_table(i);
        if (!table)
            break;
        status = copy_table(to, *run, from, from_run, table, err);
    }
    if (what == TW_COPY_ALL && status == TW_OK)
        status = tw_ledger_copy(to, *run, from, from_run, err);
    if (what == TW_COPY_ALL && status == TW_OK)
        status = tw_ledger_number(to, *run, err);
    return status;
}
