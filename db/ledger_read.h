/* Reading a ledger through any connection: runs, blocks, columns, decoded one
 * layer of one block at a time. Inside the room; built twice (sqlite_api.h). */
#ifndef TW_DB_LEDGER_READ_H
#define TW_DB_LEDGER_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "db/ledger_format.h"
#include "db/sqlite_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range of values that are wanted; both ends belong to it. */
struct twp_range {
    int64_t low, high;
};
static inline bool twp_in_range(struct twp_range range, int64_t value)
{
    return value >= range.low && value <= range.high;
}

/* A run that has a ledger. */
struct twp_ledger_run {
    int64_t id, layers, width, experts, ctx;
    char *name;
    char **active; /* [actives] */
    int actives;
};

/* One block's sequences and rows, as far as they were asked for. */
struct twp_rows {
    int64_t block; /* block_id */
    uint32_t rows, seqs;
    int64_t *sequence, *document; /* [seqs] numbers in the corpus */
    uint32_t *first;              /* [seqs+1] first row of each */
    uint32_t *seq;                /* [rows] place of its sequence */
    struct tw_section token, row_class, nll; /* value NULL: not read */
};

/* All runs with a ledger (name NULL), or one. *runs is new; end each with
 * twp_ledger_runs_fini. TW_OK, TW_ERR_DB or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status twp_ledger_runs(sqlite3 *db, const char *name,
                                           struct twp_ledger_run **runs,
                                           int *count, struct tw_error *err);
void twp_ledger_runs_free(struct twp_ledger_run *runs, int count);

/* A statement over the ids of the run's blocks that may hold sequences and
 * documents of those ranges, in corpus order. Finalize it. */
TW_MUST_USE enum tw_status twp_ledger_blocks(sqlite3 *db, int64_t run,
                                             struct twp_range sequences,
                                             struct twp_range documents,
                                             sqlite3_stmt **blocks,
                                             struct tw_error *err);

/* Reads the block's sequences and tokens, classes and losses if wanted. A
 * block of a stranger: every number is checked. Fini frees. */
TW_MUST_USE enum tw_status twp_rows_read(sqlite3 *db,
                                         const struct twp_ledger_run *run,
                                         int64_t block, bool wants_nll,
                                         struct twp_rows *rows,
                                         struct tw_error *err);
void twp_rows_fini(struct twp_rows *rows);

/* One BLOB of a block; sections as tw_ledger_unpack. *is_there false where the
 * block has none of that kind. */
TW_MUST_USE enum tw_status
twp_blob_read(sqlite3 *db, int64_t block, int kind, int def, int layer,
              struct tw_section *sections, int count, bool *is_there,
              struct tw_error *err);
/* A column of exactly `rows` numbers; value NULL where there is none. */
TW_MUST_USE enum tw_status twp_column_read(sqlite3 *db, int64_t block, int kind,
                                           int def, int layer, int bytes,
                                           uint32_t rows,
                                           struct tw_section *column,
                                           struct tw_error *err);

/* A layer's active sets: row r's are neuron[start[r] .. start[r+1]), with
 * values. Ranks are turned into neurons. neuron NULL: none recorded. */
struct twp_sets {
    uint32_t *start;  /* [rows+1] */
    uint32_t *neuron;
    uint32_t *value;  /* bfloat16 bits */
};
TW_MUST_USE enum tw_status twp_sets_read(sqlite3 *db,
                                         const struct twp_ledger_run *run,
                                         int64_t block, int layer,
                                         uint32_t rows, struct twp_sets *sets,
                                         struct tw_error *err);
void twp_sets_fini(struct twp_sets *sets);

/* TW_ERR_DB with SQLite's message. */
enum tw_status twp_read_failed(sqlite3 *db, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
