/* Results of `bench model`: into the database, and in words on stderr. */
#ifndef TW_CMD_BENCH_MODEL_SHOW_H
#define TW_CMD_BENCH_MODEL_SHOW_H

#include "base/error.h"
#include "db/store.h"
#include "run/bench_model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run of that name with its facts, a row of bench_results for each form and
 * the forms' layer_timings, in one transaction. command: the command line. */
TW_MUST_USE enum tw_status
tw_bench_model_store(struct tw_store *store, const char *name,
                     const char *command,
                     const struct tw_bench_model_options *options,
                     const struct tw_bench_model *bench, struct tw_error *err);

/* The input with its non-zeros, a line a form, energy, memory, on stderr. */
void tw_bench_model_say(const struct tw_bench_model_options *options,
                        const struct tw_bench_model *bench);

#ifdef __cplusplus
}
#endif
#endif
