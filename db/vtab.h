/* The ledger as tables: eponymous virtual tables, which stand in no schema, so
 * that the file opens in any SQLite; and the functions that go with them. The
 * program registers them on every connection; the loadable extension
 * (extension.c) does it for the sqlite3 shell and others. */
#ifndef TW_DB_VTAB_H
#define TW_DB_VTAB_H

#include "db/sqlite_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All of them. Returns SQLite's code. */
int twp_vtab_register(sqlite3 *db);

/* Parts of it. */
int twp_vtab_rows_register(sqlite3 *db);  /* token_activity, ... */
int twp_vtab_pairs_register(sqlite3 *db); /* neuron_tokens */
int twp_vtab_examples_register(sqlite3 *db);
int twp_functions_register(sqlite3 *db);  /* sparsity(), gini(), ... */

#ifdef __cplusplus
}
#endif
#endif
