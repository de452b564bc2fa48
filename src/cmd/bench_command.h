/* The targets of `bench`, each with options of its own. */
#ifndef TW_CMD_BENCH_COMMAND_H
#define TW_CMD_BENCH_COMMAND_H

#include "cmd/command.h"
#include "cmd/output.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* argv as the command's: its name, then "model". */
TW_MUST_USE enum tw_status tw_bench_run_model(int argc, char **argv,
                                              struct tw_error *err);

/* The run's rows of bench_results. */
TW_MUST_USE enum tw_status tw_bench_print(struct tw_output *output,
                                          struct tw_store *store,
                                          const char *name,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
