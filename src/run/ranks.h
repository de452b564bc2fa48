/* Ranks: one profile by several processes, started together by mpirun, by srun
 * or by hand. Each counts the documents of its rank into a database of its own
 * beside --db, "DB.partI-of-N"; the parts become one run in --db at the end.
 *
 *     struct tw_ranks ranks;
 *     tw_ranks_find(&ranks, &err);
 *     tw_ranks_run(&ranks, &options, &report, &err);
 *
 * R1 The run in --db is what one process would have counted, bit for bit.
 * R2 A rank that dies leaves a part that can be resumed: the same command with
 *    --resume counts only what is missing; so does --shard I/N --db DB.partI-of-N
 *    by hand, and `merge`.
 * R3 With MPI rank 0 waits for all, shows their progress and merges. Without it
 *    no rank waits for another: the one whose part is the last to be complete
 *    merges, so that a rank that never comes holds up nobody. */
#ifndef TW_RUN_RANKS_H
#define TW_RUN_RANKS_H

#include <stdbool.h>

#include "base/error.h"
#include "run/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_ranks {
    int rank, ranks;             /* ranks 1: alone */
    int local_rank, local_ranks; /* on this machine */
    bool is_mpi;                 /* mpirun's: notes can be passed */
    const char *source;          /* who numbered them, static */
};

/* Who this process is, from the environment: Open MPI's variables, those of a
 * Slurm step with several tasks, TW_RANK and TW_RANKS; TW_RANKS=1 turns all
 * that off. Returns TW_OK or TW_ERR_USAGE naming the variable. */
TW_MUST_USE enum tw_status tw_ranks_find(struct tw_ranks *ranks,
                                         struct tw_error *err);

/* Cores for this rank: the machine's, shared out among its ranks, at most those
 * that it is bound to. */
int tw_ranks_threads(const struct tw_ranks *ranks);
/* Its GPU: the local rank, counted over $CUDA_VISIBLE_DEVICES where set. */
int tw_ranks_device(const struct tw_ranks *ranks);

/* tw_profile_run for this rank's part, or for the whole if it is alone or
 * --shard is given. report->is_complete or was_complete only in the one process
 * that has the whole run to show. Errors begin "rank I: ". */
TW_MUST_USE enum tw_status
tw_ranks_run(const struct tw_ranks *ranks,
             const struct tw_profile_options *options,
             struct tw_profile_report *report, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
