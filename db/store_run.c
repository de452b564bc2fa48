/* Runs: their row in run_, made, found, described, cleared, deleted. */
#include <config.h>

#include "db/store.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/memory.h"
#include "db/store_internal.h"

/* Version 4: 122 random bits. */
static enum tw_status make_uuid(char text[37], struct tw_error *err)
{
    unsigned char b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return tw_error_errno(err, errno, "no random bytes for a uuid");
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        bool has_dash = i == 4 || i == 6 || i == 8 || i == 10;
        text += sprintf(text, has_dash ? "-%02x" : "%02x", b[i]);
    }
    return TW_OK;
}

static void now_utc(char text[32])
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static enum tw_status find(struct tw_store *store, const char *name,
                           bool *is_there, int64_t *run, struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = twp_prepare(
        store, &stmt, err, "SELECT run_id FROM run_ WHERE run = ?1", "t", name);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    *is_there = code == SQLITE_ROW;
    if (code == SQLITE_ROW)
        *run = sqlite3_column_int64(stmt, 0);
    else if (code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

enum tw_status tw_store_run_find(struct tw_store *store, const char *name,
                                 int64_t *run, struct tw_error *err)
{
    bool is_there = false;
    int64_t found = 0;
    enum tw_status status = find(store, name, &is_there, &found, err);
    if (status == TW_OK && !is_there)
        return tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no run '%s'",
                            store->path, name);
    if (status == TW_OK)
        *run = found;
    return status;
}

enum tw_status tw_store_run_create(struct tw_store *store, const char *name,
                                   const char *kind, int64_t *run,
                                   struct tw_error *err)
{
    char uuid[37], started[32];
    bool is_there = false;
    int64_t found;
    enum tw_status status = find(store, name, &is_there, &found, err);
    if (status == TW_OK && is_there)
        return tw_error_set(err, TW_ERR_EXISTS, "%s: run '%s' exists already",
                            store->path, name);
    if (status == TW_OK)
        status = make_uuid(uuid, err);
    if (status != TW_OK)
        return status;
    now_utc(started);
    status = twp_run(store, err,
                     "INSERT INTO run_(run, uuid, kind, status, started,"
                     " version) VALUES (?1, ?2, ?3, 'interrupted', ?4, ?5)",
                     "ttttt", name, uuid, kind, started, PACKAGE_VERSION);
    if (status == TW_OK)
        *run = sqlite3_last_insert_rowid(store->db);
    return status;
}

enum tw_status tw_store_run_renew(struct tw_store *store, int64_t run,
                                  struct tw_error *err)
{
    char uuid[37];
    enum tw_status status = make_uuid(uuid, err);
    return status == TW_OK ? tw_store_set_text(store, run, "uuid", uuid, err)
                           : status;
}

/* Tables that a checkpoint writes anew. */
static const char *const counted[] = {
    "layer_", "block_", "class_", "layer_position_", "position_",
    "layer_token_", "token_", "neuron_", "hist_", "tile_", "magnitude_",
    "route_", "dead_curve_", "rate_", "document_", "parity_", "example_",
};
static const char *const kept[] = {
    "definition_",    "run_tag_",         "corpus_",        "layer_timing_",
    "bench_",         "training_step_",   "training_layer_",
    "training_dead_", "ledger_block_",    "run_",
};
static const char *const timed[] = {"layer_timing_", "bench_",
                                    "training_step_", "training_layer_",
                                    "training_dead_"};
enum {
    COUNTED = sizeof counted / sizeof *counted,
    TIMED = sizeof timed / sizeof *timed
};

const char *twp_result_table(int i)
{
    if (i < COUNTED)
        return counted[i];
    return i < COUNTED + TIMED ? timed[i - COUNTED] : NULL;
}

/* Has the table rows of other runs? Two looks at its index. */
static enum tw_status is_shared(struct tw_store *store, int64_t run,
                                const char *table, bool *out,
                                struct tw_error *err)
{
    char sql[160];
    sqlite3_stmt *stmt;
    snprintf(sql, sizeof sql,
             "SELECT EXISTS (SELECT 1 FROM %s WHERE run_id < ?1)"
             " OR EXISTS (SELECT 1 FROM %s WHERE run_id > ?1)",
             table, table);
    enum tw_status status = twp_prepare(store, &stmt, err, sql, "i", run);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW)
        *out = sqlite3_column_int(stmt, 0) != 0;
    else
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}

/* A table that is emptied gives its pages back without a look at its rows. */
static enum tw_status clear_table(struct tw_store *store, int64_t run,
                                  const char *table, struct tw_error *err)
{
    char sql[80];
    bool shared = false;
    enum tw_status status = is_shared(store, run, table, &shared, err);
    if (status != TW_OK)
        return status;
    snprintf(sql, sizeof sql, "DELETE FROM %s%s", table,
             shared ? " WHERE run_id = ?1" : "");
    return shared ? twp_run(store, err, sql, "i", run)
                  : twp_exec(store, sql, err);
}

static enum tw_status clear_tables(struct tw_store *store, int64_t run,
                                   const char *const *names, size_t count,
                                   struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < count && status == TW_OK; i++)
        status = clear_table(store, run, names[i], err);
    return status;
}

enum tw_status tw_store_run_clear(struct tw_store *store, int64_t run,
                                  struct tw_error *err)
{
    return clear_tables(store, run, counted, COUNTED, err);
}

static enum tw_status delete_rows(struct tw_store *store, int64_t run,
                                  struct tw_error *err)
{
    enum tw_status status = tw_store_run_clear(store, run, err);
    if (status == TW_OK)
        status = twp_run(store, err,
                         "DELETE FROM ledger_ WHERE block_id IN (SELECT"
                         " block_id FROM ledger_block_ WHERE run_id = ?1)",
                         "i", run);
    if (status == TW_OK)
        status = clear_tables(store, run, kept, sizeof kept / sizeof *kept,
                              err);
    if (status == TW_OK) /* pieces that no run needs any more */
        status = twp_exec(store,
                          "DELETE FROM piece_ WHERE tokenizer_id NOT IN"
                          " (SELECT tokenizer_id FROM run_"
                          "  WHERE tokenizer_id IS NOT NULL);"
                          "DELETE FROM tokenizer_ WHERE tokenizer_id NOT IN"
                          " (SELECT tokenizer_id FROM run_"
                          "  WHERE tokenizer_id IS NOT NULL);",
                          err);
    return status;
}

/* A savepoint, so that it is one step inside and outside a transaction. */
enum tw_status tw_store_run_delete(struct tw_store *store, int64_t run,
                                   struct tw_error *err)
{
    enum tw_status status = twp_exec(store, "SAVEPOINT run_delete", err);
    if (status != TW_OK)
        return status;
    status = delete_rows(store, run, err);
    if (status == TW_OK)
        return twp_exec(store, "RELEASE run_delete", err);
    sqlite3_exec(store->db, "ROLLBACK TO run_delete; RELEASE run_delete", NULL,
                 NULL, NULL);
    return status;
}

static bool is_column(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!islower((unsigned char)*c) && *c != '_')
            return false;
    return *name != '\0';
}

static void set_sql(char sql[128], const char *column)
{
    assert(is_column(column) && strlen(column) < 60);
    snprintf(sql, 128, "UPDATE run_ SET %s = ?2 WHERE run_id = ?1", column);
}

enum tw_status tw_store_set_text(struct tw_store *store, int64_t run,
                                 const char *column, const char *text,
                                 struct tw_error *err)
{
    char sql[128];
    set_sql(sql, column);
    return twp_run(store, err, sql, "it", run, text);
}

enum tw_status tw_store_set_int(struct tw_store *store, int64_t run,
                                const char *column, int64_t value,
                                struct tw_error *err)
{
    char sql[128];
    set_sql(sql, column);
    return twp_run(store, err, sql, "ii", run, value);
}

enum tw_status tw_store_set_real(struct tw_store *store, int64_t run,
                                 const char *column, double value,
                                 struct tw_error *err)
{
    char sql[128];
    set_sql(sql, column);
    return twp_run(store, err, sql, "ir", run, value);
}

/* *stmt stands on the run's row; finalize it. */
static enum tw_status get(struct tw_store *store, int64_t run,
                          const char *column, sqlite3_stmt **stmt,
                          struct tw_error *err)
{
    char sql[128];
    assert(is_column(column) && strlen(column) < 60);
    snprintf(sql, sizeof sql, "SELECT %s FROM run_ WHERE run_id = ?1", column);
    enum tw_status status = twp_prepare(store, stmt, err, sql, "i", run);
    if (status != TW_OK)
        return status;
    int code = sqlite3_step(*stmt);
    if (code == SQLITE_ROW)
        return TW_OK;
    status = code == SQLITE_DONE
                 ? tw_error_set(err, TW_ERR_NOT_FOUND, "%s: no run number %lld",
                                store->path, (long long)run)
                 : twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(*stmt);
    return status;
}

enum tw_status tw_store_get_text(struct tw_store *store, int64_t run,
                                 const char *column, char **text,
                                 struct tw_error *err)
{
    sqlite3_stmt *stmt;
    char *copy = NULL;
    enum tw_status status = get(store, run, column, &stmt, err);
    if (status != TW_OK)
        return status;
    const char *found = (const char *)sqlite3_column_text(stmt, 0);
    if (found && !(copy = tw_strdup(found)))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    sqlite3_finalize(stmt);
    if (status == TW_OK)
        *text = copy;
    return status;
}

enum tw_status tw_store_get_int(struct tw_store *store, int64_t run,
                                const char *column, int64_t *value,
                                struct tw_error *err)
{
    sqlite3_stmt *stmt;
    enum tw_status status = get(store, run, column, &stmt, err);
    if (status != TW_OK)
        return status;
    *value = sqlite3_column_type(stmt, 0) == SQLITE_NULL
                 ? TW_NULL
                 : sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return TW_OK;
}
