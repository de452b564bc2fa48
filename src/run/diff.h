/* Two runs of models of one shape side by side, of one database or of two: what
 * both counted is laid into a database in memory, as runs 1 and 2, so that the
 * comparison is plain SQL.
 *
 *     tw_diff_open(&options, &store, &err);
 *     tw_query_open(store, tw_diff_layers_sql, &query, &err);
 */
#ifndef TW_RUN_DIFF_H
#define TW_RUN_DIFF_H

#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_diff_options {
    const char *db;
    const char *run[2]; /* a run of db, or FILE:RUN */
    const char *active; /* a definition; NULL: the primary of both */
};

/* Returns TW_OK, TW_ERR_NOT_FOUND (file, run, definition), TW_ERR_MISMATCH for
 * other shapes or definitions, each by name, or the store's error. What else
 * differs (model, text, ...) is logged. *store: tw_store_close. */
TW_MUST_USE enum tw_status tw_diff_open(const struct tw_diff_options *options,
                                        struct tw_store **store,
                                        struct tw_error *err);

/* A row a layer: means, difference b - a with combined se and z; neurons that
 * fired in a and not in b, and the other way; drift: mean |rate_b - rate_a|,
 * the total variation of a neuron's firing; max_drift. */
extern const char tw_diff_layers_sql[];
/* The :limit neurons of the largest |rate_b - rate_a|. */
extern const char tw_diff_neurons_sql[];

#ifdef __cplusplus
}
#endif
#endif
