/* What merge.c, merge_parts.c and merge_corpora.c share; private to them. */
#ifndef TW_RUN_MERGE_INTERNAL_H
#define TW_RUN_MERGE_INTERNAL_H

#include "db/store.h"
#include "run/merge.h"

/* Fields that must agree: a column of run_ or a list (merge_parts.c). */
#define TWP_IDENTITY 27

/* One run of an input. */
struct twp_part {
    struct tw_store *store; /* of the inputs */
    int64_t run;
    char *name, *uuid, *status;
    int64_t shard, shards;      /* shards 1: a whole run */
    char *field[TWP_IDENTITY];  /* of a part; NULL: none */
    int group;                  /* parts of one run; -1: a whole run */
};

struct twp_inputs {
    struct tw_store **store; /* [stores] */
    int stores;
    struct twp_part *part; /* [parts] by group, then by shard */
    size_t parts, room;
    int groups;
};

/* Opens every file and reads what its runs are, sorts parts into groups and
 * refuses what can't be: a run given twice, parts of one name that differ.
 * inputs is zero; close it in every case. */
TW_MUST_USE enum tw_status twp_inputs_open(struct twp_inputs *inputs,
                                           const char *const *paths, int count,
                                           struct tw_error *err);
/* The rows of corpus_ of the merged `run`: the lead's, the first complete part,
 * with the tokens of all up to `end`; not known unless the run is whole. */
TW_MUST_USE enum tw_status twp_merge_corpora(struct tw_store *out, int64_t run,
                                             const struct twp_part *lead,
                                             const struct twp_part *end,
                                             bool is_whole,
                                             struct tw_error *err);

void twp_inputs_close(struct twp_inputs *inputs);

#endif
