/* The store's life after opening: statements, transactions, errors. One rule:
 * every SQLite failure passes twp_fail, so that each names the file. */
#include <config.h>

#include "db/store.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "db/store_internal.h"

static bool is_full(sqlite3 *db, int code)
{
    int number = db ? sqlite3_system_errno(db) : 0;
    bool no_room = number == ENOSPC || number == EDQUOT || number == EROFS;
    switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_READONLY:
        return true;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return no_room;
    default:
        return false;
    }
}

static enum tw_status fail_cantopen(sqlite3 *db, const char *path,
                                    struct tw_error *err)
{
    int number = sqlite3_system_errno(db);
    if (number == ENOENT)
        return tw_error_set(err, TW_ERR_DB, "%s: its folder does not exist",
                            path);
    if (number)
        return tw_error_set(err, TW_ERR_DB, "%s: cannot open: %s", path,
                            strerror(number));
    return tw_error_set(err, TW_ERR_DB, "%s: cannot open", path);
}

enum tw_status twp_fail(sqlite3 *db, const char *path, int code,
                        struct tw_error *err)
{
    if (is_full(db, code))
        return tw_error_set(err, TW_ERR_FULL, "%s: %s", path,
                            (code & 0xff) == SQLITE_READONLY
                                ? "read-only"
                                : "no space left or read-only medium");
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return tw_error_set(err, TW_ERR_BUSY, "%s: another program is writing",
                            path);
    case SQLITE_CANTOPEN:
        return fail_cantopen(db, path, err);
    case SQLITE_IOERR:
        return tw_error_set(err, TW_ERR_DB, "%s: %s: %s", path,
                            sqlite3_errmsg(db),
                            strerror(sqlite3_system_errno(db)));
    default:
        return tw_error_set(err, TW_ERR_DB, "%s: %s", path,
                            db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    }
}

const char *tw_store_path(const struct tw_store *store)
{
    return store->path;
}

void twp_store_busy_ms(struct tw_store *store, int ms)
{
    sqlite3_busy_timeout(store->db, ms);
}

enum tw_status twp_exec(struct tw_store *store, const char *sql,
                        struct tw_error *err)
{
    int code = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TW_OK
                             : twp_fail(store->db, store->path, code, err);
}

static int bind_text(sqlite3_stmt *stmt, int place, const char *text)
{
    return text ? sqlite3_bind_text(stmt, place, text, -1, SQLITE_STATIC)
                : sqlite3_bind_null(stmt, place);
}

static int bind_blob(sqlite3_stmt *stmt, int place, const void *bytes,
                     int64_t size)
{
    if (!bytes)
        return sqlite3_bind_null(stmt, place);
    return sqlite3_bind_blob64(stmt, place, bytes, (sqlite3_uint64)size,
                               SQLITE_STATIC);
}

static int bind_real(sqlite3_stmt *stmt, int place, double value)
{
    return isnan(value) ? sqlite3_bind_null(stmt, place)
                        : sqlite3_bind_double(stmt, place, value);
}

static int bind_int(sqlite3_stmt *stmt, int place, int64_t value)
{
    return value == TW_NULL ? sqlite3_bind_null(stmt, place)
                            : sqlite3_bind_int64(stmt, place, value);
}

static int bind_all(sqlite3_stmt *stmt, const char *types, va_list args)
{
    int code = SQLITE_OK;
    assert((int)strlen(types) == sqlite3_bind_parameter_count(stmt));
    for (int place = 1; *types && code == SQLITE_OK; types++, place++) {
        switch (*types) {
        case 'i':
            code = bind_int(stmt, place, va_arg(args, int64_t));
            break;
        case 'r':
            code = bind_real(stmt, place, va_arg(args, double));
            break;
        case 't':
            code = bind_text(stmt, place, va_arg(args, const char *));
            break;
        default: {
            assert(*types == 'b');
            const void *bytes = va_arg(args, const void *);
            code = bind_blob(stmt, place, bytes, va_arg(args, int64_t));
        }
        }
    }
    return code;
}

static enum tw_status prepare(struct tw_store *store, sqlite3_stmt **stmt,
                              struct tw_error *err, const char *sql,
                              unsigned flags, const char *types, va_list args)
{
    int code = SQLITE_OK;
    if (!*stmt)
        code = sqlite3_prepare_v3(store->db, sql, -1, flags, stmt, NULL);
    if (code == SQLITE_OK)
        code = bind_all(*stmt, types, args);
    if (code == SQLITE_OK)
        return TW_OK;
    enum tw_status status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(*stmt);
    *stmt = NULL;
    return status;
}

enum tw_status twp_prepare(struct tw_store *store, sqlite3_stmt **stmt,
                           struct tw_error *err, const char *sql,
                           const char *types, ...)
{
    va_list args;
    va_start(args, types);
    *stmt = NULL;
    enum tw_status status = prepare(store, stmt, err, sql, 0, types, args);
    va_end(args);
    return status;
}

static enum tw_status step_to_end(struct tw_store *store, sqlite3_stmt *stmt,
                                  struct tw_error *err)
{
    int code;
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        ;
    return code == SQLITE_DONE ? TW_OK
                               : twp_fail(store->db, store->path, code, err);
}

enum tw_status twp_run(struct tw_store *store, struct tw_error *err,
                       const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *stmt = NULL;
    enum tw_status status = prepare(store, &stmt, err, sql, 0, types, args);
    va_end(args);
    if (status == TW_OK)
        status = step_to_end(store, stmt, err);
    sqlite3_finalize(stmt);
    return status;
}

enum tw_status twp_run_cached(struct tw_store *store, sqlite3_stmt **cache,
                              struct tw_error *err, const char *sql,
                              const char *types, ...)
{
    va_list args;
    va_start(args, types);
    enum tw_status status = prepare(store, cache, err, sql,
                                    SQLITE_PREPARE_PERSISTENT, types, args);
    va_end(args);
    if (status != TW_OK)
        return status;
    status = step_to_end(store, *cache, err);
    sqlite3_reset(*cache);
    sqlite3_clear_bindings(*cache);
    return status;
}

enum tw_status tw_store_begin(struct tw_store *store, struct tw_error *err)
{
    assert(sqlite3_get_autocommit(store->db));
    return twp_exec(store, "BEGIN IMMEDIATE", err);
}

enum tw_status tw_store_commit(struct tw_store *store, struct tw_error *err)
{
    int code = sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        return TW_OK;
    if ((code & 0xff) == SQLITE_BUSY) /* the transaction is still open */
        return tw_error_set(err, TW_ERR_BUSY, "%s: another program is reading",
                            store->path);
    return twp_fail(store->db, store->path, code, err);
}

void tw_store_rollback(struct tw_store *store)
{
    if (!sqlite3_get_autocommit(store->db))
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

enum tw_status tw_store_analyze(struct tw_store *store, struct tw_error *err)
{
    /* A sample of each index is enough to choose between them. */
    return twp_exec(store, "PRAGMA analysis_limit=1000; ANALYZE", err);
}

bool tw_store_is_threadsafe(void)
{
    return sqlite3_threadsafe() != 0;
}

const char *tw_store_library(void)
{
    return sqlite3_libversion();
}

void tw_store_close(struct tw_store *store)
{
    if (!store)
        return;
    for (int i = 0; i < TW_TABLES; i++) {
        sqlite3_finalize(store->put[i]);
        sqlite3_finalize(store->put_rows[i]);
    }
    sqlite3_finalize(store->put_piece);
    sqlite3_finalize(store->put_blob);
    sqlite3_finalize(store->put_step);
    sqlite3_finalize(store->put_step_layer);
    sqlite3_close_v2(store->db); /* rolls back */
    tw_free(store->path);
    tw_free(store);
}
