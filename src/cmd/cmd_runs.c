/* twellscope runs: what a database holds. */
#include <config.h>

#include "cmd/command.h"

#include <getopt.h>
#include <stdio.h>

#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "db/store.h"

static const char list[] =
    "SELECT run, kind, status, model, active, tokens, round(mean_nll, 4) AS "
    "mean_nll,\n"
    "  (SELECT round(avg(mean_nnz), 2) FROM layer_stats l WHERE l.run = r.run)"
    " AS mean_nnz,\n"
    "  backend, started, cause FROM run_info r ORDER BY started, run";

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    static const struct option options[] = {
        {"db", required_argument, NULL, 'd'},
        {"output", required_argument, NULL, 'o'},
        {NULL, 0, NULL, 0}};
    const char *db = tw_default_db();
    struct tw_output output = {.format = TW_FORMAT_TABLE, .file = stdout};
    struct tw_store *store = NULL;
    struct tw_query *query = NULL;
    enum tw_status status = TW_OK;
    int option;
    optind = 0;
    while (status == TW_OK &&
           (option = getopt_long(argc, argv, "+:o:", options, NULL)) != -1) {
        if (option == 'd')
            db = optarg;
        else if (option == 'o')
            status = tw_output_open(optarg, &output, err);
        else
            status = tw_bad_option(option, argv[optind - 1], err);
    }
    if (status == TW_OK && optind < argc)
        status = tw_error_set(err, TW_ERR_USAGE, "unexpected argument '%s'",
                              argv[optind]);
    if (status == TW_OK)
        status = tw_store_open(db, TW_STORE_READ, &store, err);
    if (status == TW_OK)
        status = tw_query_open(store, list, &query, err);
    if (status == TW_OK)
        status = tw_output_query(&output, query, "runs", err);
    tw_query_close(query);
    tw_store_close(store);
    enum tw_status closed = tw_output_close(&output, err);
    return status == TW_OK ? closed : status;
}

const struct tw_command tw_command_runs = {
    .name = "runs",
    .group = "Look",
    .summary = "list the runs of a database",
    .usage = "[--db FILE] [-o FORMAT|FILE]",
    .help = "One line a run: its kind, status, model, definition, tokens, loss, "
            "non-zeros\nand, where it failed, the cause.\n\n"
            "  --db FILE           database ($TWELLSCOPE_DB, else "
            "twellscope.sqlite)\n"
            "  -o, --output X      table, csv, json, jsonl, md, latex, sql, or a "
            "file whose\n"
            "                      ending picks the format\n",
    .run = run,
};
