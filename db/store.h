/* The database of runs: one SQLite file, opened for writing by the program
 * that measures, read-only by those that show. The only user of sqlite3.h.
 *
 *     struct tw_store *store;
 *     tw_store_open("twellscope.sqlite", TW_STORE_WRITE, &store, &err);
 *     tw_store_begin(store, &err);                       // one transaction
 *     tw_store_run_create(store, "mymodel", "profile", &run, &err);
 *     tw_store_set_text(store, run, "activation", "relu", &err);
 *     tw_store_put(store, TW_TABLE_HIST, (int64_t[]){run, 0, l, nnz, n}, &err);
 *     tw_store_commit(store, &err);
 *     tw_store_close(store);
 *
 * Files from others are refused before a byte changes: a SQLite file that
 * isn't ours (application_id), a newer schema (user_version), a file that is
 * no database. New files are created with schema.sql; rollback journal, never
 * WAL. Disk full and read-only media are TW_ERR_FULL. */
#ifndef TW_DB_STORE_H
#define TW_DB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Integer counts of a run, one table each; the columns of TW_TABLE_* stand in
 * schema.sql's order. TW_NULL stores NULL. */
#define TW_NULL INT64_MIN

enum tw_table {
    TW_TABLE_LAYER,          /* layer_ without its derived columns:
                              * run, def, layer, width, tokens, sum_nnz,
                              * min_nnz, max_nnz, sum_l1 */
    TW_TABLE_BLOCK,
    TW_TABLE_CLASS,
    TW_TABLE_LAYER_POSITION,
    TW_TABLE_POSITION,
    TW_TABLE_LAYER_TOKEN,
    TW_TABLE_TOKEN,
    TW_TABLE_NEURON,         /* up to sum_abs; then the bits of max_abs (a
                              * double's, as int64) as the last value */
    TW_TABLE_HIST,
    TW_TABLE_TILE,
    TW_TABLE_MAGNITUDE,
    TW_TABLE_ROUTE,
    TW_TABLE_DEAD_CURVE,
    TW_TABLE_RATE,
    TW_TABLE_DOCUMENT,
    TW_TABLES
};

/* user_version of files that this program writes; it reads older ones too. */
#define TW_SCHEMA_VERSION 2

enum tw_store_mode {
    TW_STORE_READ,
    TW_STORE_WRITE,
    TW_STORE_CHANGE,
    TW_STORE_MIGRATE /* as CHANGE, for a file of an older schema too */
};

struct tw_store;

/* WRITE creates a missing file (its folder must exist), CHANGE writes only to
 * one that is there. READ opens read-only;
 * where a hot journal prevents that, opens read-write once to roll back.
 * Returns TW_OK, TW_ERR_NOT_FOUND, TW_ERR_DB, TW_ERR_FULL, TW_ERR_MISMATCH
 * (not ours, newer schema, an older one for writing), each naming path. Close
 * with tw_store_close. */
TW_MUST_USE enum tw_status tw_store_open(const char *path,
                                         enum tw_store_mode mode,
                                         struct tw_store **store,
                                         struct tw_error *err);
/* Rolls back what is not committed. NULL is allowed. */
void tw_store_close(struct tw_store *store);
/* Before what needs the newest schema reads a file: TW_ERR_MISMATCH, naming
 * `fsck --migrate`, if the file is older. */
TW_MUST_USE enum tw_status tw_store_check_schema(const struct tw_store *store,
                                                 struct tw_error *err);
/* user_version of the open file. */
int tw_store_schema(const struct tw_store *store);
/* SQLite's own version, static. */
const char *tw_store_library(void);
/* May a store be used by one thread after another? */
bool tw_store_is_threadsafe(void);
/* As given to tw_store_open: for messages. */
const char *tw_store_path(const struct tw_store *store);

/* One transaction at a time (BEGIN IMMEDIATE); each waits 10 s for others, then
 * gives TW_ERR_BUSY. A commit that meets a reader leaves the transaction open:
 * it may be tried again. */
TW_MUST_USE enum tw_status tw_store_begin(struct tw_store *store,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_store_commit(struct tw_store *store,
                                           struct tw_error *err);
void tw_store_rollback(struct tw_store *store);

/* Runs. A name is unique in the file (TW_ERR_EXISTS names it). A new run has
 * status 'interrupted', a fresh uuid, started = now (UTC, ISO 8601) and the
 * program's version. */
TW_MUST_USE enum tw_status tw_store_run_create(struct tw_store *store,
                                               const char *name,
                                               const char *kind, int64_t *run,
                                               struct tw_error *err);
/* TW_ERR_NOT_FOUND if there is none of that name. */
TW_MUST_USE enum tw_status tw_store_run_find(struct tw_store *store,
                                             const char *name, int64_t *run,
                                             struct tw_error *err);
/* Deletes every row of the run, its own included. */
TW_MUST_USE enum tw_status tw_store_run_delete(struct tw_store *store,
                                               int64_t run,
                                               struct tw_error *err);
/* Deletes the run's rows in all TW_TABLE_* and parity_, before a checkpoint
 * writes them anew. */
TW_MUST_USE enum tw_status tw_store_run_clear(struct tw_store *store,
                                              int64_t run,
                                              struct tw_error *err);

/* A run of another file, under its name (TW_ERR_EXISTS names it): its row,
 * definitions, tags, corpora and token pieces, and with ALL what it counted and
 * timed. Inside a transaction of `to`; `from` is only read. Returns TW_OK or
 * the error of the file that failed. */
enum tw_copy { TW_COPY_FACTS, TW_COPY_ALL };
TW_MUST_USE enum tw_status tw_store_run_copy(struct tw_store *to,
                                             struct tw_store *from,
                                             int64_t from_run,
                                             enum tw_copy what, int64_t *run,
                                             struct tw_error *err);
/* Another uuid, for a run that is not the one it was copied from. */
TW_MUST_USE enum tw_status tw_store_run_renew(struct tw_store *store,
                                              int64_t run,
                                              struct tw_error *err);

/* One column of run_; `column` must be a column's name (asserted). NULL text
 * stores NULL. */
TW_MUST_USE enum tw_status tw_store_set_text(struct tw_store *store,
                                             int64_t run, const char *column,
                                             const char *text,
                                             struct tw_error *err);
TW_MUST_USE enum tw_status tw_store_set_int(struct tw_store *store, int64_t run,
                                            const char *column, int64_t value,
                                            struct tw_error *err);
TW_MUST_USE enum tw_status tw_store_set_real(struct tw_store *store,
                                             int64_t run, const char *column,
                                             double value, /* NaN: NULL */
                                             struct tw_error *err);
/* *text: a new string (tw_free), NULL where the column is NULL; numbers come
 * as SQLite prints them. */
TW_MUST_USE enum tw_status tw_store_get_text(struct tw_store *store,
                                             int64_t run, const char *column,
                                             char **text, struct tw_error *err);
/* TW_NULL where NULL. */
TW_MUST_USE enum tw_status tw_store_get_int(struct tw_store *store, int64_t run,
                                            const char *column, int64_t *value,
                                            struct tw_error *err);

/* Inserts or replaces one row of integers, in the table's column order (a
 * replaced layer_ row loses its derived columns). Statements are kept; inside
 * a transaction a row costs more than a microsecond. */
TW_MUST_USE enum tw_status tw_store_put(struct tw_store *store,
                                        enum tw_table table,
                                        const int64_t *values,
                                        struct tw_error *err);
int tw_store_columns(enum tw_table table);
/* The same for many rows, in a third of the time, best in the order of their
 * keys: next makes one at a time, values as for tw_store_put, until it returns
 * false. It must not use the store. */
typedef bool tw_store_next_fn(void *arg, int64_t *values);
TW_MUST_USE enum tw_status tw_store_put_rows(struct tw_store *store,
                                             enum tw_table table,
                                             tw_store_next_fn *next, void *arg,
                                             struct tw_error *err);
/* The derived columns of one layer_ row; quantiles p50, p90, p99, p999. */
TW_MUST_USE enum tw_status
tw_store_put_derived(struct tw_store *store, int64_t run, int64_t def_ord,
                     int64_t layer, double mean, double se, double std,
                     const double quantile[4], int64_t dead, int64_t fired_once,
                     int64_t always_on, struct tw_error *err);

/* Calls fn for every row of a run's table, in key order, until it returns an
 * error, which is passed on. values as for tw_store_put. */
typedef enum tw_status tw_store_row_fn(void *arg, const int64_t *values,
                                       struct tw_error *err);
TW_MUST_USE enum tw_status tw_store_scan(struct tw_store *store,
                                         enum tw_table table, int64_t run,
                                         tw_store_row_fn *fn, void *arg,
                                         struct tw_error *err);

/* Definitions (def_ord 0 first), tags, corpora of a run. */
TW_MUST_USE enum tw_status tw_store_put_definition(struct tw_store *store,
                                                   int64_t run, int64_t def_ord,
                                                   const char *active,
                                                   struct tw_error *err);
/* value NULL: the tag is taken away. */
TW_MUST_USE enum tw_status tw_store_put_tag(struct tw_store *store, int64_t run,
                                            const char *key, const char *value,
                                            struct tw_error *err);
struct tw_store_corpus {
    int64_t ord;
    const char *file, *sha256;          /* sha256 may be NULL */
    int64_t documents, tokens, bytes;   /* TW_NULL: not known yet */
};
TW_MUST_USE enum tw_status tw_store_put_corpus(struct tw_store *store,
                                               int64_t run,
                                               const struct tw_store_corpus *c,
                                               struct tw_error *err);

/* The tokenizer's pieces, written once a hash: *is_new tells whether they have
 * to be put. Also sets the run's tokenizer_id and tokenizer_hash. */
TW_MUST_USE enum tw_status tw_store_tokenizer(struct tw_store *store,
                                              int64_t run, const char *hash,
                                              int64_t *tokenizer, bool *is_new,
                                              struct tw_error *err);
TW_MUST_USE enum tw_status tw_store_put_piece(struct tw_store *store,
                                              int64_t tokenizer,
                                              int64_t token_id,
                                              const char *token,
                                              const void *bytes, size_t size,
                                              bool is_special,
                                              struct tw_error *err);

/* One row of parity_ (layer TW_NULL for the whole); NaN or TW_NULL: NULL. */
struct tw_store_parity {
    int64_t ord, layer, cells, identical, max_difference;
    double total_difference;
    int64_t fired_cells, fired_identical, fired_max_difference;
    double l1_max_relative, nll_max_difference, mean_nll_difference,
        logits_max_difference;
};
TW_MUST_USE enum tw_status tw_store_put_parity(struct tw_store *store,
                                               int64_t run,
                                               const struct tw_store_parity *p,
                                               struct tw_error *err);

/* One row of bench_; ns in nanoseconds, NaN or TW_NULL: NULL. */
struct tw_store_bench {
    const char *target, *name, *path, *dtype, *data, *energy_method;
    int64_t m, k, n, nnz_max, repetitions, ns_median, ns_min, ns_mad,
        peak_bytes;
    double nnz_mean, tokens_per_ms, mj_per_token, idle_watt, rel_error;
};
TW_MUST_USE enum tw_status tw_store_put_bench(struct tw_store *store,
                                              int64_t run,
                                              const struct tw_store_bench *b,
                                              struct tw_error *err);

/* One row of layer_timing_; path "dense" or "twell". */
struct tw_store_timing {
    const char *path;
    int64_t layer, tokens, ns_median, ns_min, ns_mad, repetitions;
};
TW_MUST_USE enum tw_status tw_store_put_timing(struct tw_store *store,
                                               int64_t run,
                                               const struct tw_store_timing *t,
                                               struct tw_error *err);

/* One row of training_step_ and of training_layer_; NaN or TW_NULL: NULL. */
struct tw_store_step {
    int64_t step, tokens, dense_rows, step_ns, peak_bytes;
    double ce, loss, l1, l1_coefficient, lr, grad_norm, mean_nnz, alive,
        tokens_per_ms;
};
struct tw_store_step_layer {
    int64_t step, layer, max_nnz, dense_rows;
    double mean_nnz, alive;
    const char *path; /* NULL: NULL */
};
TW_MUST_USE enum tw_status tw_store_put_step(struct tw_store *store,
                                             int64_t run,
                                             const struct tw_store_step *s,
                                             struct tw_error *err);
TW_MUST_USE enum tw_status
tw_store_put_step_layer(struct tw_store *store, int64_t run,
                        const struct tw_store_step_layer *s,
                        struct tw_error *err);

/* Brings a file up to TW_SCHEMA_VERSION in one transaction, after a copy of it,
 * PATH.vN-backup, was written under the same lock; *from is the version it had.
 * A file that is up to date is left as it is. Returns TW_OK, TW_ERR_EXISTS (a
 * backup of that name), or tw_store_open's errors; the file is then unchanged.
 */
TW_MUST_USE enum tw_status tw_store_migrate(const char *path, int *from,
                                            struct tw_error *err);

/* ANALYZE, of a sample, at the end of a run. */
TW_MUST_USE enum tw_status tw_store_analyze(struct tw_store *store,
                                            struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
