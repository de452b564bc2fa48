/* Is the file's schema the one of schema.sql? What others added is theirs. */
#include <config.h>

#include "db/fsck.h"

#include "base/strbuf.h"
#include "db/store_internal.h"

/* Over a fresh database: what the file must have. */
static const char wanted[] =
    "SELECT s.name, c.name, c.type, c.\"notnull\", c.pk FROM sqlite_schema s,"
    " pragma_table_info(s.name) c WHERE s.type = 'table' UNION ALL"
    " SELECT name, NULL, sql, 0, 0 FROM sqlite_schema WHERE type = 'view'";
static const char has_column[] =
    "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 AND type = ?3 AND"
    " \"notnull\" = ?4 AND pk = ?5";
static const char has_view[] =
    "SELECT 1 FROM sqlite_schema WHERE type = 'view' AND name = ?1 AND"
    " sql = ?3";

static enum tw_status look_for(struct tw_store *store, sqlite3_stmt *want,
                               sqlite3_stmt *column, sqlite3_stmt *view,
                               struct tw_strbuf *cell, int64_t *count,
                               struct tw_error *err)
{
    bool is_view = sqlite3_column_type(want, 1) == SQLITE_NULL;
    sqlite3_stmt *stmt = is_view ? view : column;
    for (int i = 1; i <= sqlite3_bind_parameter_count(stmt); i++)
        sqlite3_bind_value(stmt, i, sqlite3_column_value(want, i - 1));
    int code = sqlite3_step(stmt);
    if (code == SQLITE_DONE && (*count)++ == 0)
        tw_strbuf_printf(
            cell, "%s%s%s", sqlite3_column_text(want, 0), is_view ? "" : ".",
            is_view ? "" : (const char *)sqlite3_column_text(want, 1));
    sqlite3_reset(stmt);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? TW_OK
               : twp_fail(store->db, store->path, code, err);
}

enum tw_status tw_fsck_schema(struct tw_store *store, char **cell,
                              int64_t *count, struct tw_error *err)
{
    sqlite3 *model = NULL;
    sqlite3_stmt *want = NULL, *column = NULL, *view = NULL;
    struct tw_strbuf first = {0};
    int code = SQLITE_DONE;
    *cell = NULL;
    *count = 0;
    enum tw_status status = twp_schema_model(&model, err);
    if (status == TW_OK && (code = sqlite3_prepare_v2(model, wanted, -1, &want,
                                                      NULL)) != SQLITE_OK)
        status = twp_fail(model, "schema.sql", code, err);
    if (status == TW_OK)
        status = twp_prepare(store, &column, err, has_column, "ttttt", NULL,
                             NULL, NULL, NULL, NULL);
    if (status == TW_OK)
        status =
            twp_prepare(store, &view, err, has_view, "ttt", NULL, NULL, NULL);
    while (status == TW_OK && (code = sqlite3_step(want)) == SQLITE_ROW)
        status = look_for(store, want, column, view, &first, count, err);
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_fail(model, "schema.sql", code, err);
    sqlite3_finalize(want);
    sqlite3_finalize(column);
    sqlite3_finalize(view);
    sqlite3_close(model);
    if (status == TW_OK && *count > 0 && !(*cell = tw_strbuf_take(&first)))
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tw_strbuf_fini(&first);
    return status;
}
