/* The cursor of token_activity, active_neurons and watched: over runs, blocks,
 * layers, definitions and rows. Inside the room. */
#ifndef TW_DB_VTAB_WALK_H
#define TW_DB_VTAB_WALK_H

#include "db/vtab_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TWP_MAX_COLUMNS = 14 };

/* What a row of the table is. */
enum twp_grain { TWP_GRAIN_ROW, TWP_GRAIN_SET, TWP_GRAIN_WATCH };

struct twp_table {
    const char *name, *schema;
    enum twp_grain grain;
    int columns;
    enum twp_role role[TWP_MAX_COLUMNS];
};

struct twp_rows_vtab {
    sqlite3_vtab base;
    sqlite3 *db;
    const struct twp_table *table;
};

struct twp_walk {
    sqlite3_vtab_cursor base;
    struct twp_plan plan;
    uint32_t used; /* columns that the query reads */
    struct twp_ledger_run *runs;
    int n_runs;
    sqlite3_stmt *blocks; /* of the current run */
    struct twp_rows rows; /* of the current block */
    int64_t layer;
    int run, def;               /* current ones */
    struct tw_section nnz, l1;  /* TWP_GRAIN_ROW: of layer and definition */
    struct twp_sets sets;       /* TWP_GRAIN_SET */
    struct tw_section watch[4]; /* TWP_GRAIN_WATCH */
    uint32_t row;               /* current row of the block */
    uint32_t end;               /* no row from here on can match */
    uint32_t entry;             /* SET: current entry; WATCH: current firing */
    uint32_t of, left; /* WATCH: current neuron's place, its firings left */
    bool has_column;   /* the current layer has rows, which are decoded */
    bool is_decoded;   /* so is this one of this block, the last that was: */
    int64_t decoded_layer;
    int decoded_def;
    bool is_fresh; /* SET: before the first entry */
    bool is_end;   /* there is no current row */
};

static inline const struct twp_rows_vtab *
twp_walk_vtab(const struct twp_walk *c)
{
    return (const struct twp_rows_vtab *)c->base.pVtab;
}

static inline const struct twp_ledger_run *
twp_walk_run(const struct twp_walk *c)
{
    return &c->runs[c->run];
}

/* The current row's place in its sequence. */
static inline int64_t twp_walk_position(const struct twp_walk *c)
{
    return c->row - c->rows.first[c->rows.seq[c->row]];
}

/* To the first row that the plan may want, which is taken over; `used`: the
 * columns that will be read, a bit each. What is decoded stays where the plan
 * wants a sequence of the same block. TW_OK or the reader's error. */
TW_MUST_USE enum tw_status twp_walk_start(struct twp_walk *walk,
                                          const struct twp_plan *plan,
                                          uint32_t used, struct tw_error *err);
/* To the next one. */
TW_MUST_USE enum tw_status twp_walk_next(struct twp_walk *walk,
                                         struct tw_error *err);
/* Frees what it holds, not itself. */
void twp_walk_fini(struct twp_walk *walk);

#ifdef __cplusplus
}
#endif
#endif
