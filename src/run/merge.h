/* `merge`: the parts of runs (profile --shard I/N) from several databases as
 * whole runs in one; runs that are no parts are laid side by side.
 *
 *     const char *in[] = {"part0.sqlite", "part1.sqlite"};
 *     struct tw_merge_options options = {.out = "all.sqlite", .in = in,
 *                                        .n_in = 2, .command = line};
 *     tw_merge_run(&options, &report, &err);
 *
 * Parts belong together when everything that decides a count is equal; the
 * merged run holds what a single process would have counted, bit for bit, in
 * whatever order the files are named. Nothing is written unless all is. */
#ifndef TW_RUN_MERGE_H
#define TW_RUN_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_merge_options {
    const char *out;        /* made if it is not there; its runs stay */
    const char *const *in;  /* [n_in] */
    int n_in;
    bool allows_missing;    /* --allow-missing */
    const char *replaced;   /* a run of the output to be deleted; NULL: none */
    const char *command;    /* the command line, for run_info */
};

struct tw_merge_report {
    int merged, parts, copied; /* runs made of parts; parts; runs copied */
    int64_t tokens;            /* of the merged runs */
};

/* Returns TW_OK; TW_ERR_LOST where parts are missing and that was allowed (the
 * run is 'partial' and stored); TW_ERR_MISMATCH naming the field in which parts
 * of one name differ, the part that was given twice, or the parts that are
 * missing; TW_ERR_EXISTS for a name that the output has already; or the error
 * of a file, which is named. */
TW_MUST_USE enum tw_status tw_merge_run(const struct tw_merge_options *options,
                                        struct tw_merge_report *report,
                                        struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
