/* Rows of counts: put one and scan, both driven by one table of names; many at
 * once are store_bulk.c's. */
#include <config.h>

#include "db/store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "db/store_internal.h"

static const struct twp_table tables[TW_TABLES] = {
    [TW_TABLE_LAYER] = {"layer_",
                        "run_id,def_ord,layer,width,tokens,sum_nnz,min_nnz,"
                        "max_nnz,sum_l1", 9, 3, false},
    [TW_TABLE_BLOCK] = {"block_",
                        "run_id,def_ord,layer,block,tokens,sum_nnz,predicted,"
                        "sum_nll", 8, 4, false},
    [TW_TABLE_CLASS] = {"class_",
                        "run_id,def_ord,layer,class,skipped,tokens,sum_nnz,"
                        "max_nnz", 8, 5, false},
    [TW_TABLE_LAYER_POSITION] = {"layer_position_",
                                 "run_id,def_ord,layer,position,tokens,"
                                 "sum_nnz,min_nnz,max_nnz", 8, 4, false},
    [TW_TABLE_POSITION] = {"position_",
                           "run_id,def_ord,position,tokens,sum_nnz,min_nnz,"
                           "max_nnz,max_layer_sum", 8, 3, false},
    [TW_TABLE_LAYER_TOKEN] = {"layer_token_",
                              "run_id,def_ord,layer,token_id,count,sum_nnz,"
                              "min_nnz,max_nnz", 8, 4, false},
    [TW_TABLE_TOKEN] = {"token_",
                        "run_id,def_ord,token_id,count,in_sequences,sum_nnz,"
                        "count_even,sum_even,min_nnz,max_nnz", 10, 3, false},
    [TW_TABLE_NEURON] = {"neuron_",
                         "run_id,def_ord,layer,expert,neuron,tokens,fired,"
                         "first_document,first_row,last_document,last_row,"
                         "first_fired,last_fired,sum_abs,max_abs", 15, 5, true},
    [TW_TABLE_HIST] = {"hist_", "run_id,def_ord,layer,nnz,tokens", 5, 4,
                       false},
    [TW_TABLE_TILE] = {"tile_", "run_id,layer,tile_width,nnz,tiles", 5, 4,
                       false},
    [TW_TABLE_MAGNITUDE] = {"magnitude_", "run_id,layer,log2_bin,count", 4, 3,
                            false},
    [TW_TABLE_ROUTE] = {"route_",
                        "run_id,layer,tokens,overflow_tiles,overflow_rows,"
                        "dense_rows", 6, 2, false},
    [TW_TABLE_DEAD_CURVE] = {"dead_curve_",
                             "run_id,def_ord,layer,tokens_seen,dead", 5, 4,
                             false},
    [TW_TABLE_RATE] = {"rate_", "run_id,def_ord,layer,halvings,neurons", 5, 4,
                       false},
    [TW_TABLE_DOCUMENT] = {"document_", "run_id,document,rows,sequences", 4, 2,
                           false},
};

const struct twp_table *twp_table(enum tw_table table)
{
    assert((unsigned)table < TW_TABLES);
    return &tables[table];
}

int tw_store_columns(enum tw_table table)
{
    return twp_table(table)->count;
}

double twp_real_of(int64_t bits)
{
    double real;
    memcpy(&real, &bits, sizeof real);
    return real;
}

static int prepare_put(struct tw_store *store, enum tw_table table)
{
    char sql[400], marks[2 * TWP_MAX_COLUMNS] = "";
    for (int i = 0; i < tables[table].count; i++)
        strcat(marks, i ? ",?" : "?");
    snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s(%s) VALUES (%s)",
             tables[table].name, tables[table].columns, marks);
    return sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
                              &store->put[table], NULL);
}

static int bind_value(sqlite3_stmt *stmt, int place, int64_t value,
                      bool is_real)
{
    if (value == TW_NULL)
        return sqlite3_bind_null(stmt, place);
    return is_real ? sqlite3_bind_double(stmt, place, twp_real_of(value))
                   : sqlite3_bind_int64(stmt, place, value);
}

enum tw_status tw_store_put(struct tw_store *store, enum tw_table table,
                            const int64_t *values, struct tw_error *err)
{
    assert((unsigned)table < TW_TABLES);
    int code = SQLITE_OK, count = tables[table].count;
    if (!store->put[table])
        code = prepare_put(store, table);
    sqlite3_stmt *stmt = store->put[table];
    for (int i = 0; i < count && code == SQLITE_OK; i++)
        code = bind_value(stmt, i + 1, values[i],
                          tables[table].has_real_last && i == count - 1);
    if (code == SQLITE_OK)
        code = sqlite3_step(stmt);
    enum tw_status status =
        code == SQLITE_DONE ? TW_OK
                            : twp_fail(store->db, store->path, code, err);
    sqlite3_reset(stmt);
    return status;
}

enum tw_status tw_store_put_derived(struct tw_store *store, int64_t run,
                                    int64_t def_ord, int64_t layer, double mean,
                                    double se, double std,
                                    const double quantile[4], int64_t dead,
                                    int64_t fired_once, int64_t always_on,
                                    struct tw_error *err)
{
    return twp_run(store, err,
                   "UPDATE layer_ SET mean_nnz = ?4, se_nnz = ?5,"
                   " std_nnz = ?6, p50_nnz = ?7, p90_nnz = ?8, p99_nnz = ?9,"
                   " p999_nnz = ?10, dead = ?11, fired_once = ?12,"
                   " always_on = ?13"
                   " WHERE run_id = ?1 AND def_ord = ?2 AND layer = ?3",
                   "iiirrrrrrriii", run, def_ord, layer, mean, se, std,
                   quantile[0], quantile[1], quantile[2], quantile[3], dead,
                   fired_once, always_on);
}

static void read_row(sqlite3_stmt *stmt, enum tw_table table, int64_t *values)
{
    int count = tables[table].count;
    for (int i = 0; i < count; i++) {
        values[i] = sqlite3_column_type(stmt, i) == SQLITE_NULL
                        ? TW_NULL
                        : sqlite3_column_int64(stmt, i);
        if (i == count - 1 && tables[table].has_real_last &&
            values[i] != TW_NULL) {
            double real = sqlite3_column_double(stmt, i);
            memcpy(&values[i], &real, sizeof real);
        }
    }
}

static enum tw_status prepare_scan(struct tw_store *store, enum tw_table table,
                                   int64_t run, sqlite3_stmt **stmt,
                                   struct tw_error *err)
{
    char sql[400], order[24] = "1";
    for (int i = 2; i <= tables[table].keys; i++)
        snprintf(order + strlen(order), sizeof order - strlen(order), ",%d", i);
    snprintf(sql, sizeof sql, "SELECT %s FROM %s WHERE run_id = ?1 ORDER BY %s",
             tables[table].columns, tables[table].name, order);
    return twp_prepare(store, stmt, err, sql, "i", run);
}

enum tw_status tw_store_scan(struct tw_store *store, enum tw_table table,
                             int64_t run, tw_store_row_fn *fn, void *arg,
                             struct tw_error *err)
{
    assert((unsigned)table < TW_TABLES);
    sqlite3_stmt *stmt;
    int64_t values[TWP_MAX_COLUMNS];
    int code = SQLITE_DONE;
    enum tw_status status = prepare_scan(store, table, run, &stmt, err);
    if (status != TW_OK)
        return status;
    while (status == TW_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        read_row(stmt, table, values);
        status = fn(arg, values, err);
    }
    if (status == TW_OK && code != SQLITE_DONE)
        status = twp_fail(store->db, store->path, code, err);
    sqlite3_finalize(stmt);
    return status;
}
