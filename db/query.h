/* Read-only SQL over the published views: what `sql`, `figure` and the
 * summary use. Cells are handed out one row at a time.
 *
 *     struct tw_query *query;
 *     tw_query_open(store, "SELECT layer, mean_nnz FROM layer_stats", &query,
 *                   &err);
 *     while (tw_query_next(query, &has_row, &err) == TW_OK && has_row)
 *         use(tw_query_real(query, 1));
 *     tw_query_close(query);
 */
#ifndef TW_DB_QUERY_H
#define TW_DB_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_query;

enum tw_cell { TW_CELL_NULL, TW_CELL_INT, TW_CELL_REAL, TW_CELL_TEXT,
               TW_CELL_BLOB };

/* Compiles one statement; on a read-only store a statement that would write is
 * refused, more than one statement too. Returns TW_OK or TW_ERR_DB with
 * SQLite's message. Close with tw_query_close (NULL allowed). */
TW_MUST_USE enum tw_status tw_query_open(struct tw_store *store,
                                         const char *sql,
                                         struct tw_query **query,
                                         struct tw_error *err);
void tw_query_close(struct tw_query *query);

/* Binds a named parameter (":name"); one the statement does not have is
 * ignored. Before the first tw_query_next. NULL text binds NULL. */
TW_MUST_USE enum tw_status tw_query_bind_text(struct tw_query *query,
                                              const char *name,
                                              const char *text,
                                              struct tw_error *err);
TW_MUST_USE enum tw_status tw_query_bind_int(struct tw_query *query,
                                             const char *name, int64_t value,
                                             struct tw_error *err);
TW_MUST_USE enum tw_status tw_query_bind_real(struct tw_query *query,
                                              const char *name, double value,
                                              struct tw_error *err);

TW_MUST_USE enum tw_status tw_query_next(struct tw_query *query, bool *has_row,
                                         struct tw_error *err);

/* The current row; column from 0. Pointers live until the next call of
 * tw_query_next. */
int tw_query_columns(const struct tw_query *query);
const char *tw_query_name(const struct tw_query *query, int column);
enum tw_cell tw_query_type(const struct tw_query *query, int column);
int64_t tw_query_int(const struct tw_query *query, int column);
double tw_query_real(const struct tw_query *query, int column);
/* Text or BLOB bytes, *size without the NUL; numbers as text; NULL as NULL. */
const char *tw_query_text(const struct tw_query *query, int column,
                          size_t *size);

/* Runs statements without rows, or drops their rows: temporary tables of the
 * figures (allowed on a read-only store, which is only so on disk). */
TW_MUST_USE enum tw_status tw_query_exec(struct tw_store *store,
                                         const char *sql, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
