/* Between the files of fsck. */
#ifndef TW_RUN_FSCK_INTERNAL_H
#define TW_RUN_FSCK_INTERNAL_H

#include <stdbool.h>

#include "db/fsck.h"
#include "db/query.h"
#include "run/fsck.h"

#ifdef __cplusplus
extern "C" {
#endif

struct twp_fsck {
    struct tw_store *store;
    tw_fsck_fn *fn;
    void *arg;
    struct tw_fsck_report *report;
    int64_t run;      /* run_id; 0: the file */
    const char *name; /* the run's */
};

/* Says what came of a check and counts it. */
TW_MUST_USE enum tw_status twp_fsck_say(struct twp_fsck *f,
                                        struct tw_fsck_finding finding,
                                        struct tw_error *err);
/* *why (tw_free): the first need that the run lacks, NULL if none. */
TW_MUST_USE enum tw_status twp_fsck_why_not(struct twp_fsck *f, unsigned needs,
                                            char **why, struct tw_error *err);
/* An error that says something of the file rather than of this machine is a
 * finding: TW_OK and *text (tw_free) instead. Others are passed on to err. */
TW_MUST_USE enum tw_status twp_fsck_judge(enum tw_status status,
                                          const struct tw_error *found,
                                          char **text, struct tw_error *err);
/* A query with :run bound. */
TW_MUST_USE enum tw_status twp_fsck_query(struct twp_fsck *f, const char *sql,
                                          struct tw_query **query,
                                          struct tw_error *err);
/* A whole number of the run's row; 0 where NULL. */
TW_MUST_USE enum tw_status twp_fsck_fact(struct twp_fsck *f, const char *column,
                                         int64_t *value, struct tw_error *err);

/* fsck_derived.c, fsck_ledger.c */
TW_MUST_USE enum tw_status twp_fsck_derived(struct twp_fsck *f,
                                            struct tw_error *err);
TW_MUST_USE enum tw_status twp_fsck_ledger(struct twp_fsck *f,
                                           struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
