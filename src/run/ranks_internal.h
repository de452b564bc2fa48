/* The parts of a run of ranks as files, and the ranks as a team; private to
 * ranks_*.c. */
#ifndef TW_RUN_RANKS_INTERNAL_H
#define TW_RUN_RANKS_INTERNAL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "run/profile.h"
#include "run/ranks.h"
#include "run/ranks_wire.h"

/* "DB.partI-of-N" in a new string (tw_free); NULL without memory. */
char *twp_part_path(const char *db, int rank, int ranks);

/* Appends "0, 3" to list: the parts whose run `name` is not there or not
 * complete. Returns how many. */
int twp_parts_missing(const char *db, const char *name, int ranks,
                      struct tw_strbuf *list);

/* Parts of another number of ranks beside db would be counted anew unnoticed:
 * TW_ERR_MISMATCH names one. */
TW_MUST_USE enum tw_status twp_parts_check_others(const char *db, int ranks,
                                                  struct tw_error *err);

/* All parts into options->db as run `name`, then removed. One process does it:
 * *is_merged is false where another does, or has done so. */
TW_MUST_USE enum tw_status
twp_parts_merge(const struct tw_profile_options *options, const char *name,
                int ranks, bool *is_merged, struct tw_error *err);

struct twp_team {
    const struct tw_ranks *who;
    const struct tw_profile_options *o;
    const struct tw_wire *wire; /* NULL: ranks can't talk */
    char name[256];
    struct tw_note *progress, *done; /* [ranks] rank 0: the last of each */
    int n_done;
    double last_post; /* seconds */
};

/* The wire, where mpirun started us and MPI's module is there: which rank this
 * is comes from the environment, MPI has to agree. No module is no error. */
TW_MUST_USE enum tw_status twp_team_join(struct twp_team *team,
                                         struct tw_error *err);
/* A tw_progress_fn of this rank's part; arg: the team. */
void twp_team_progress(void *arg, const struct tw_progress *progress);
/* With a wire: rank 0 waits for all and merges, the others wait for it. status
 * and err: how this rank's own work went. */
TW_MUST_USE enum tw_status twp_team_lead(struct twp_team *team,
                                         enum tw_status status, bool is_whole,
                                         struct tw_profile_report *report,
                                         struct tw_error *err);
TW_MUST_USE enum tw_status twp_team_follow(struct twp_team *team,
                                           enum tw_status status,
                                           struct tw_profile_report *report,
                                           const struct tw_error *err);
/* The parts into the whole if all are complete; report->is_complete tells. With
 * a wire a part that is missing is an error, without one it is to come. */
TW_MUST_USE enum tw_status twp_team_merge(struct twp_team *team,
                                          struct tw_profile_report *report,
                                          struct tw_error *err);

#endif
