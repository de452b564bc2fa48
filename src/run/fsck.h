/* Does a database hold together? Every check of db/fsck.h, what is derived
 * recomputed, and what the per-token ledger determines counted again.
 *
 *     tw_fsck_run(store, names, count, say, arg, &report, &err);
 *     if (report.violated) ...
 *
 * Only reads. */
#ifndef TW_RUN_FSCK_H
#define TW_RUN_FSCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tw_fsck_result { TW_FSCK_OK, TW_FSCK_VIOLATED, TW_FSCK_NOT_CHECKED };

/* One check of one run. Texts live during the call; NULL: none. */
struct tw_fsck_finding {
    const char *run;   /* NULL: of the whole file */
    const char *check; /* what must be so */
    enum tw_fsck_result result;
    const char *cell, *stored, *expected; /* the first that violates it */
    int64_t violations;
    const char *why; /* it was not checked */
};
typedef enum tw_status tw_fsck_fn(void *arg,
                                  const struct tw_fsck_finding *finding,
                                  struct tw_error *err);

struct tw_fsck_report {
    int checks, violated, not_checked;
};

/* Checks the file and the runs of those names (none: all). Returns TW_OK
 * whatever was found, TW_ERR_NOT_FOUND for an unknown run, or an error that
 * ended the checks: memory, a lock, fn's. */
TW_MUST_USE enum tw_status tw_fsck_run(struct tw_store *store,
                                       const char *const *runs, int count,
                                       tw_fsck_fn *fn, void *arg,
                                       struct tw_fsck_report *report,
                                       struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
