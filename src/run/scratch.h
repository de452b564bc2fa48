/* --scratch DIR: the run is counted into a file there (a node's own disk) and
 * brought home to --db when it ends, is stopped (75) or fails.
 *
 * R1 Where there is no --db yet the file itself is moved: renamed, or on another
 *    file system copied, flushed and then named; an existing file is never
 *    replaced.
 * R2 Where there is one the run is copied into it in one transaction, so that
 *    what others wrote there meanwhile stays.
 * R3 A file that a killed process left in DIR is gone on with by --resume, and
 *    otherwise named. */
#ifndef TW_RUN_SCRATCH_H
#define TW_RUN_SCRATCH_H

#include "base/error.h"
#include "run/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* tw_profile_run, through options->scratch if there is one. */
TW_MUST_USE enum tw_status
tw_scratch_run(const struct tw_profile_options *options,
               struct tw_profile_report *report, struct tw_error *err);

/* Removes a database and the journal that a killed writer may have left, which
 * must not meet another file of that name. Neither needs to be there. */
void tw_database_remove(const char *path);

#ifdef __cplusplus
}
#endif
#endif
