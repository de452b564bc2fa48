/* What must hold between a database's tables, as a list of checks: each is one
 * SELECT whose rows are violations (cell, stored, expected), so that it can be
 * read and tried by itself. What SQL can't recompute is in run/fsck_*.c.
 *
 *     for (int i = 0; (check = tw_fsck_check(i)); i++)
 *         if (!reason_not_to(check->needs))
 *             run check->sql with :run bound to run_id, stop at the first row
 */
#ifndef TW_DB_FSCK_H
#define TW_DB_FSCK_H

#include <stdint.h>

#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a run must have for a check to say anything. */
enum tw_fsck_need {
    TW_FSCK_COUNTS, /* rows were counted: a checkpoint of a profile */
    TW_FSCK_ENDED,  /* what is derived at the end */
    TW_FSCK_LOSS,
    TW_FSCK_DOCS,  /* documents that are texts, not windows */
    TW_FSCK_DENSE, /* no experts */
    TW_FSCK_TEXT,  /* a corpus of texts, so every token has a piece */
    TW_FSCK_TOKENIZER,
    TW_FSCK_PART,   /* one part of several */
    TW_FSCK_HIDDEN, /* a definition 'hidden' */
    TW_FSCK_GATE,   /* a definition 'gate', the pattern itself */
    TW_FSCK_MAGNITUDES,
    TW_FSCK_LEDGER,
    TW_FSCK_EXAMPLES,
    TW_FSCK_TIMES, /* timings */
    TW_FSCK_TRAINING,
    TW_FSCK_NEEDS
};
#define TW_FSCK_BIT(need) (1u << (need))

struct tw_fsck_check {
    const char *name; /* what must be so */
    unsigned needs;   /* TW_FSCK_BIT of each */
    const char *sql;  /* :run is run_id; cell, stored, expected by violation */
};

/* Checks of one run, in order; NULL: no more. Static. */
const struct tw_fsck_check *tw_fsck_check(int i);
/* Checks of the whole file (no :run, no needs). */
const struct tw_fsck_check *tw_fsck_file_check(int i);
/* One text without rows if the run has what is needed, else a row that says
 * why not. */
const char *tw_fsck_need_sql(enum tw_fsck_need need);

/* The file's tables, columns and views against schema.sql's. *cell is new
 * (tw_free): the first table or view that differs, NULL if none does. Returns
 * TW_OK or the store's error. */
TW_MUST_USE enum tw_status tw_fsck_schema(struct tw_store *store, char **cell,
                                          int64_t *count, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
