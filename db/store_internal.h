/* Inside the room: the store's fields and the few calls every file of it
 * uses. Includes sqlite3.h, so nobody outside (but the room's tests) may
 * include it. */
#ifndef TW_DB_STORE_INTERNAL_H
#define TW_DB_STORE_INTERNAL_H

#include <sqlite3.h>

#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TWP_APPLICATION_ID 0x5477454CU
#define TWP_SCHEMA_VERSION TW_SCHEMA_VERSION
#define TWP_BUSY_MS 10000

/* db/schema.sql, made into C by a rule of db/local.mk. */
extern const char twp_schema_sql[];

struct tw_store {
    sqlite3 *db;
    char *path;
    enum tw_store_mode mode;
    int version; /* user_version */
    sqlite3_stmt *put[TW_TABLES]; /* prepared at the first use */
    sqlite3_stmt *put_rows[TW_TABLES];
    struct twp_source *source; /* while put_rows runs (store_bulk.c) */
    bool has_source_module;
    sqlite3_stmt *put_piece, *put_blob, *put_step, *put_step_layer;
};

#define TWP_MAX_COLUMNS 16

/* A TW_TABLE_*. `keys` leading columns are the primary key, after run_id the
 * scan's order. */
struct twp_table {
    const char *name, *columns;
    int count, keys;
    bool has_real_last; /* the last value is the bits of a double */
};
const struct twp_table *twp_table(enum tw_table table);
double twp_real_of(int64_t bits);

/* Fills *err from the connection's last failure (result code `code`), naming
 * the file: a full disk or read-only medium TW_ERR_FULL, a lock that stays
 * "another program is writing", no memory TW_ERR_NOMEM, others TW_ERR_DB. */
enum tw_status twp_fail(sqlite3 *db, const char *path, int code,
                        struct tw_error *err);

/* Runs statements without parameters or rows. */
TW_MUST_USE enum tw_status twp_exec(struct tw_store *store, const char *sql,
                                    struct tw_error *err);
/* Prepares and binds one statement; types has a letter a parameter: i int64_t
 * (TW_NULL: NULL), r double (NaN: NULL), t const char * (NULL: NULL), b const
 * void * and then its int64_t bytes (one parameter). Texts are not copied.
 * Finalize *stmt, which is NULL on failure. */
TW_MUST_USE enum tw_status twp_prepare(struct tw_store *store,
                                       sqlite3_stmt **stmt,
                                       struct tw_error *err, const char *sql,
                                       const char *types, ...);
/* Prepares, binds, runs to the end. */
TW_MUST_USE enum tw_status twp_run(struct tw_store *store,
                                   struct tw_error *err, const char *sql,
                                   const char *types, ...);
/* As twp_run on a statement kept in *cache, prepared at its first use. */
TW_MUST_USE enum tw_status twp_run_cached(struct tw_store *store,
                                          sqlite3_stmt **cache,
                                          struct tw_error *err,
                                          const char *sql, const char *types,
                                          ...);
/* A database in memory with schema.sql alone, to compare with; close it, also
 * after an error. */
TW_MUST_USE enum tw_status twp_schema_model(sqlite3 **model,
                                            struct tw_error *err);
/* The i-th table of what a run counted or timed; NULL: no more. */
const char *twp_result_table(int i);
/* Copies the rows of `table` whose column `key` is from_key, under to_key; the
 * other columns as names ", a, b" and marks ", ?2, ?3" (store_copy.c). */
TW_MUST_USE enum tw_status twp_copy_rows(struct tw_store *to, int64_t to_key,
                                         struct tw_store *from,
                                         int64_t from_key, const char *table,
                                         const char *key, const char *names,
                                         const char *marks,
                                         struct tw_error *err);
/* Milliseconds to wait for another writer; for tests. */
void twp_store_busy_ms(struct tw_store *store, int ms);

#ifdef __cplusplus
}
#endif
#endif
