/* Older files brought up to this program's schema, on request. One rule: a step
 * says what its version lacks and is never changed afterwards; the views, which
 * hold no data, are made anew from schema.sql at the end.
 *
 * R1 A backup is complete on disk before the file changes.
 * R2 All steps are one transaction: a kill leaves the old file. */
#include <config.h>

#include "db/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/store_internal.h"

/* From `from` to the next version; where a table is named, only if it, or its
 * column, is missing (files of development builds have some already). */
static const struct step {
    int from;
    const char *table, *column, *sql;
} steps[] = {
    {1, "run_", "ledger", "ALTER TABLE run_ ADD COLUMN ledger TEXT"},
    {1, "ledger_block_", NULL,
     "CREATE TABLE ledger_block_ ("
     " block_id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL,"
     " document INTEGER NOT NULL, start INTEGER NOT NULL,"
     " last_document INTEGER NOT NULL, last_start INTEGER NOT NULL,"
     " rows INTEGER NOT NULL, sequences INTEGER NOT NULL, before INTEGER,"
     " UNIQUE (run_id, document, start))"},
    {1, "ledger_", NULL,
     "CREATE TABLE ledger_ ("
     " block_id INTEGER NOT NULL, kind INTEGER NOT NULL,"
     " def_ord INTEGER NOT NULL, layer INTEGER NOT NULL, data BLOB NOT NULL,"
     " UNIQUE (block_id, kind, def_ord, layer))"},
    {1, "rate_", NULL,
     "CREATE TABLE rate_ (run_id INTEGER NOT NULL, def_ord INTEGER NOT NULL,"
     " layer INTEGER NOT NULL, halvings INTEGER NOT NULL,"
     " neurons INTEGER NOT NULL,"
     " PRIMARY KEY (run_id, def_ord, layer, halvings)) WITHOUT ROWID"},
    {1, NULL, NULL, /* what the runs' ends would have made */
     "INSERT OR REPLACE INTO rate_ WITH RECURSIVE k(k) AS (SELECT 0 UNION ALL"
     " SELECT k + 1 FROM k WHERE k < 61) SELECT n.run_id, n.def_ord, n.layer,"
     " CASE WHEN n.fired = 0 THEN -1 ELSE (SELECT max(k) FROM k WHERE n.fired"
     " <= n.tokens >> k) END AS halvings, count(*) FROM neuron_ n JOIN run_ r"
     " USING (run_id) WHERE r.status IN ('complete', 'partial') AND n.tokens >"
     " 0 AND n.fired BETWEEN 0 AND n.tokens GROUP BY 1, 2, 3, 4"},
    {1, "example_", NULL,
     "CREATE TABLE example_ (run_id INTEGER NOT NULL, layer INTEGER NOT NULL,"
     " data BLOB NOT NULL, PRIMARY KEY (run_id, layer))"},
    {1, "training_step_", NULL,
     "CREATE TABLE training_step_ ("
     " run_id INTEGER NOT NULL, step INTEGER NOT NULL, tokens INTEGER,"
     " ce REAL, loss REAL, l1 REAL, l1_coefficient REAL, lr REAL,"
     " grad_norm REAL, mean_nnz REAL, alive REAL, dense_rows INTEGER,"
     " step_ns INTEGER, tokens_per_ms REAL, peak_bytes INTEGER,"
     " PRIMARY KEY (run_id, step)) WITHOUT ROWID"},
    {1, "training_layer_", NULL,
     "CREATE TABLE training_layer_ ("
     " run_id INTEGER NOT NULL, step INTEGER NOT NULL, layer INTEGER NOT NULL,"
     " mean_nnz REAL, max_nnz INTEGER, alive REAL, dense_rows INTEGER,"
     " path TEXT, PRIMARY KEY (run_id, step, layer)) WITHOUT ROWID"},
    {1, "training_dead_", NULL,
     "CREATE TABLE training_dead_ ("
     " run_id INTEGER NOT NULL, step INTEGER NOT NULL, layer INTEGER NOT NULL,"
     " window_tokens INTEGER NOT NULL, dead INTEGER NOT NULL,"
     " PRIMARY KEY (run_id, step, layer)) WITHOUT ROWID"},
};
enum { STEPS = sizeof steps / sizeof *steps };

/* --- The backup --- */

static char *backup_path(const struct tw_store *store)
{
    size_t room = strlen(store->path) + 32;
    char *path = tw_alloc(room, 1);
    if (path)
        snprintf(path, room, "%s.v%d-backup", store->path, store->version);
    return path;
}

/* An empty file with the database's own permissions; nothing is overwritten. */
static enum tw_status make_empty(const struct tw_store *store, const char *path,
                                 struct tw_error *err)
{
    struct stat info;
    if (stat(store->path, &info) != 0)
        return tw_error_errno(err, errno, "%s", store->path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, info.st_mode & 0777);
    if (file < 0 && errno == EEXIST)
        return tw_error_set(err, TW_ERR_EXISTS,
                            "%s: a backup is there already: move it away",
                            path);
    if (file < 0)
        return tw_error_errno(err, errno, "%s", path);
    close(file);
    return TW_OK;
}

/* SQLite's backup, synced. It reads through a connection of its own, for one in
 * a writing transaction can't be the source; that transaction's lock keeps
 * other writers out. */
static enum tw_status copy_pages(const struct tw_store *store, const char *path,
                                 struct tw_error *err)
{
    sqlite3 *to = NULL, *from = NULL;
    sqlite3_backup *backup = NULL;
    int code = sqlite3_open_v2(store->path, &from, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK)
        backup = sqlite3_backup_init(to, "main", from, "main");
    if (backup)
        sqlite3_backup_step(backup, -1);
    if (backup)
        sqlite3_backup_finish(backup);
    if (code == SQLITE_OK)
        code = sqlite3_errcode(to);
    enum tw_status status =
        code == SQLITE_OK ? TW_OK : twp_fail(to ? to : from, path, code, err);
    sqlite3_close(to);
    sqlite3_close(from);
    return status;
}

/* --- The steps --- */

static enum tw_status is_missing(struct tw_store *store,
                                 const struct step *step, bool *is_needed,
                                 struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = twp_prepare(
        store, &stmt, err,
        "SELECT 1 FROM pragma_table_info(?1) WHERE ?2 IS NULL OR name = ?2",
        "tt", step->table, step->column);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    *is_needed = code == SQLITE_DONE;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

static enum tw_status run_steps(struct tw_store *store, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int i = 0; i < STEPS && status == TW_OK; i++) {
        bool is_needed = steps[i].from >= store->version;
        if (is_needed && steps[i].table)
            status = is_missing(store, &steps[i], &is_needed, err);
        if (status == TW_OK && is_needed)
            status = twp_exec(store, steps[i].sql, err);
    }
    return status;
}

/* Every view of schema.sql, whatever the file has under its name. */
static enum tw_status make_view(struct tw_store *store, const char *name,
                                const char *sql, struct tw_error *err)
{
    char drop[128];
    snprintf(drop, sizeof drop, "DROP VIEW IF EXISTS %s", name);
    enum tw_status status = twp_exec(store, drop, err);
    return status == TW_OK ? twp_exec(store, sql, err) : status;
}

enum tw_status twp_schema_model(sqlite3 **model, struct tw_error *err)
{
    int code = sqlite3_open(":memory:", model);
    if (code == SQLITE_OK)
        code = sqlite3_exec(*model, twp_schema_sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TW_OK
                             : twp_fail(*model, "schema.sql", code, err);
}

static enum tw_status make_views(struct tw_store *store, struct tw_error *err)
{
    sqlite3 *model = NULL;
    sqlite3_stmt *stmt = NULL;
    enum tw_status status = twp_schema_model(&model, err);
    int code = SQLITE_DONE;
    if (status == TW_OK &&
        (code = sqlite3_prepare_v2(model,
                                   "SELECT name, sql FROM sqlite_schema WHERE"
                                   " type = 'view' ORDER BY rowid",
                                   -1, &stmt, NULL)) != SQLITE_OK)
        status = twp_fail(model, "schema.sql", code, err);
    while (status == TW_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW)
        status = make_view(store, (const char *)sqlite3_column_text(stmt, 0),
                           (const char *)sqlite3_column_text(stmt, 1), err);
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_fail(model, "schema.sql", code, err);
    sqlite3_finalize(stmt);
    sqlite3_close(model);
    return status;
}

static enum tw_status bring_up(struct tw_store *store, struct tw_error *err)
{
    char version[64];
    snprintf(version, sizeof version, "PRAGMA user_version = %d",
             TWP_SCHEMA_VERSION);
    enum tw_status status = run_steps(store, err);
    if (status == TW_OK)
        status = make_views(store, err);
    return status == TW_OK ? twp_exec(store, version, err) : status;
}

/* In the transaction: another program may have been faster. */
static enum tw_status migrate(struct tw_store *store, const char *backup,
                              struct tw_error *err)
{
    bool is_made = false;
    enum tw_status status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = make_empty(store, backup, err);
    is_made = status == TW_OK;
    if (status == TW_OK)
        status = copy_pages(store, backup, err);
    if (status == TW_OK)
        status = bring_up(store, err);
    if (status == TW_OK)
        status = tw_store_commit(store, err);
    if (status == TW_OK)
        return TW_OK;
    tw_store_rollback(store);
    if (is_made) /* the file is as it was */
        unlink(backup);
    return status;
}

enum tw_status tw_store_migrate(const char *path, int *from,
                                struct tw_error *err)
{
    struct tw_store *store = NULL;
    char *backup = NULL;
    enum tw_status status = tw_store_open(path, TW_STORE_MIGRATE, &store, err);
    if (status != TW_OK)
        return status;
    int version = store->version;
    if (version < TWP_SCHEMA_VERSION) {
        backup = backup_path(store);
        status = backup ? migrate(store, backup, err)
                        : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    tw_free(backup);
    tw_store_close(store);
    if (status == TW_OK)
        *from = version;
    return status;
}
