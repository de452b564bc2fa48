/* What merge.c and merge_parts.c share; private to them. */
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
void twp_inputs_close(struct twp_inputs *inputs);

#endif
