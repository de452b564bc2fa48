/* Results of `bench ffn`: into the database, and in words on stderr. */
#ifndef TW_CMD_BENCH_SHOW_H
#define TW_CMD_BENCH_SHOW_H

#include "base/error.h"
#include "db/store.h"
#include "run/bench_ffn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run of that name with its facts and a row of bench_results for every form
 * of every point, in one transaction. command: the command line. */
TW_MUST_USE enum tw_status
tw_bench_store(struct tw_store *store, const char *name, const char *command,
               const struct tw_bench_ffn_options *options,
               const struct tw_bench_point *points, struct tw_error *err);

/* A line a point and the break-even, on stderr. */
void tw_bench_say(const struct tw_bench_ffn_options *options,
                  const struct tw_bench_point *points);

#ifdef __cplusplus
}
#endif
#endif
