/* One prepared statement at a time, for those that show. */
#include <config.h>

#include "db/query.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "db/store_internal.h"

struct tw_query {
    struct tw_store *store;
    sqlite3_stmt *stmt;
};

/* Only white space, comments and ';' may follow. */
static bool is_blank(struct tw_store *store, const char *tail)
{
    while (*tail) {
        sqlite3_stmt *stmt = NULL;
        const char *next = tail;
        int code = sqlite3_prepare_v2(store->db, tail, -1, &stmt, &next);
        bool has_more = code != SQLITE_OK || stmt;
        sqlite3_finalize(stmt);
        if (has_more)
            return false;
        if (next == tail)
            break;
        tail = next;
    }
    return true;
}

static enum tw_status check(struct tw_store *store, sqlite3_stmt *stmt,
                            const char *tail, struct tw_error *err)
{
    if (!stmt)
        return tw_error_set(err, TW_ERR_DB, "no SQL statement");
    if (!is_blank(store, tail))
        return tw_error_set(err, TW_ERR_DB, "more than one SQL statement");
    if (store->mode == TW_STORE_READ && !sqlite3_stmt_readonly(stmt))
        return tw_error_set(err, TW_ERR_DB,
                            "the statement would write; only reading is "
                            "allowed");
    return TW_OK;
}

enum tw_status tw_query_open(struct tw_store *store, const char *sql,
                             struct tw_query **out, struct tw_error *err)
{
    sqlite3_stmt *stmt = NULL;
    const char *tail = "";
    int code = sqlite3_prepare_v2(store->db, sql, -1, &stmt, &tail);
    if (code != SQLITE_OK)
        return twp_fail(store->db, store->path, code, err);
    enum tw_status status = check(store, stmt, tail, err);
    struct tw_query *query = NULL;
    if (status == TW_OK && !(query = tw_alloc(1, sizeof *query)))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status != TW_OK) {
        sqlite3_finalize(stmt);
        return status;
    }
    *query = (struct tw_query){.store = store, .stmt = stmt};
    *out = query;
    return TW_OK;
}

void tw_query_close(struct tw_query *query)
{
    if (!query)
        return;
    sqlite3_finalize(query->stmt);
    tw_free(query);
}

static enum tw_status bound(struct tw_query *query, int code,
                            struct tw_error *err)
{
    return code == SQLITE_OK
               ? TW_OK
               : twp_fail(query->store->db, query->store->path, code, err);
}

enum tw_status tw_query_bind_text(struct tw_query *query, const char *name,
                                  const char *text, struct tw_error *err)
{
    int place = sqlite3_bind_parameter_index(query->stmt, name);
    if (place == 0)
        return TW_OK;
    return bound(query,
                 text ? sqlite3_bind_text(query->stmt, place, text, -1,
                                          SQLITE_TRANSIENT)
                      : sqlite3_bind_null(query->stmt, place),
                 err);
}

enum tw_status tw_query_bind_int(struct tw_query *query, const char *name,
                                 int64_t value, struct tw_error *err)
{
    int place = sqlite3_bind_parameter_index(query->stmt, name);
    if (place == 0)
        return TW_OK;
    return bound(query,
                 value == TW_NULL
                     ? sqlite3_bind_null(query->stmt, place)
                     : sqlite3_bind_int64(query->stmt, place, value),
                 err);
}

enum tw_status tw_query_bind_real(struct tw_query *query, const char *name,
                                  double value, struct tw_error *err)
{
    int place = sqlite3_bind_parameter_index(query->stmt, name);
    if (place == 0)
        return TW_OK;
    return bound(query,
                 isnan(value) ? sqlite3_bind_null(query->stmt, place)
                              : sqlite3_bind_double(query->stmt, place, value),
                 err);
}

enum tw_status tw_query_next(struct tw_query *query, bool *has_row,
                             struct tw_error *err)
{
    int code = sqlite3_step(query->stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        return twp_fail(query->store->db, query->store->path, code, err);
    *has_row = code == SQLITE_ROW;
    return TW_OK;
}

int tw_query_columns(const struct tw_query *query)
{
    return sqlite3_column_count(query->stmt);
}

const char *tw_query_name(const struct tw_query *query, int column)
{
    const char *name = sqlite3_column_name(query->stmt, column);
    return name ? name : "";
}

enum tw_cell tw_query_type(const struct tw_query *query, int column)
{
    switch (sqlite3_column_type(query->stmt, column)) {
    case SQLITE_INTEGER:
        return TW_CELL_INT;
    case SQLITE_FLOAT:
        return TW_CELL_REAL;
    case SQLITE_TEXT:
        return TW_CELL_TEXT;
    case SQLITE_BLOB:
        return TW_CELL_BLOB;
    default:
        return TW_CELL_NULL;
    }
}

int64_t tw_query_int(const struct tw_query *query, int column)
{
    return sqlite3_column_int64(query->stmt, column);
}

double tw_query_real(const struct tw_query *query, int column)
{
    return sqlite3_column_double(query->stmt, column);
}

const char *tw_query_text(const struct tw_query *query, int column,
                          size_t *size)
{
    bool is_blob = sqlite3_column_type(query->stmt, column) == SQLITE_BLOB;
    const char *text = is_blob ? sqlite3_column_blob(query->stmt, column)
                               : (const char *)sqlite3_column_text(query->stmt,
                                                                   column);
    if (size)
        *size = (size_t)sqlite3_column_bytes(query->stmt, column);
    return is_blob && !text ? "" : text; /* an empty BLOB is not NULL */
}

enum tw_status tw_query_exec(struct tw_store *store, const char *sql,
                             struct tw_error *err)
{
    return twp_exec(store, sql, err);
}
