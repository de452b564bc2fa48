/* What a query wants of a ledger table: ranges taken from its WHERE clause.
 * SQLite checks every row again, so a range may be too wide, never too
 * narrow. Inside the room. */
#ifndef TW_DB_VTAB_PLAN_H
#define TW_DB_VTAB_PLAN_H

#include <stdbool.h>

#include "db/ledger_read.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a column means; those up to TWP_TOKEN can be pushed down. */
enum twp_role {
    TWP_RUN,
    TWP_ACTIVE,
    TWP_SEQUENCE,
    TWP_DOCUMENT,
    TWP_POSITION,
    TWP_LAYER,
    TWP_NEURON,
    TWP_TOKEN,
    TWP_FILTERS,
    TWP_CLASS = TWP_FILTERS,
    TWP_NNZ,
    TWP_L1,
    TWP_NLL_SELF,
    TWP_NLL_NEXT,
    TWP_SKIPPED,
    TWP_EXPERT,
    TWP_VALUE,
    TWP_PIECE,
    TWP_FIRED,
    TWP_COUNT,
    TWP_RATE
};

struct twp_plan {
    char *run, *active;                    /* NULL: any */
    struct twp_range range[TWP_FILTERS];   /* of the whole-number roles */
    bool is_empty;                         /* nothing can match */
};

/* xBestIndex for a table whose columns have those roles: takes what it can and
 * says how much that saves. columns: their number. */
int twp_plan_choose(sqlite3_index_info *info, const enum twp_role *role,
                    int columns);
/* xFilter's arguments into ranges. TW_OK or TW_ERR_NOMEM; end with fini. */
TW_MUST_USE enum tw_status twp_plan_read(struct twp_plan *plan,
                                         const char *chosen, int count,
                                         sqlite3_value **values,
                                         struct tw_error *err);
void twp_plan_fini(struct twp_plan *plan);

/* What every such module does: declares the table and gives a zeroed
 * `bytes` that begins with sqlite3_vtab; frees it; a zeroed cursor. SQLite's
 * codes. */
int twp_vtab_make(sqlite3 *db, const char *schema, int bytes,
                  sqlite3_vtab **out);
int twp_vtab_disconnect(sqlite3_vtab *vtab);
int twp_cursor_make(int bytes, sqlite3_vtab_cursor **out);

/* SQLite's code for a failure, its message left with the table. */
int twp_vtab_fail(sqlite3_vtab *vtab, const struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
