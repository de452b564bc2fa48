/* The loadable extension: in the sqlite3 shell
 *
 *     .load ./twellscope_ledger
 *     SELECT layer, avg(nnz) FROM token_activity WHERE run = 'r' GROUP BY 1;
 *
 * and in Python connection.load_extension("./twellscope_ledger"). */
#include <config.h>

#define TW_EXTENSION_MAIN
#include "db/vtab.h"

/* SQLite looks for this name: sqlite3_ and the file's letters, _init. */
__attribute__((visibility("default"))) int
sqlite3_twellscopeledger_init(sqlite3 *db, char **message,
                              const sqlite3_api_routines *api);

int sqlite3_twellscopeledger_init(sqlite3 *db, char **message,
                                  const sqlite3_api_routines *api)
{
    (void)message;
    SQLITE_EXTENSION_INIT2(api);
    return twp_vtab_register(db);
}
