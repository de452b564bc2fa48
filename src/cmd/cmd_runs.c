/* twellscope runs: what a database holds. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>

#include "cmd/arguments.h"
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

struct request {
    const char *db, *output;
    bool wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status print_runs(const char *db, struct tw_output *output,
                                 struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_query *query = NULL;
    enum tw_status status = tw_store_open(db, TW_STORE_READ, &store, err);
    if (status == TW_OK)
        status = tw_query_open(store, list, &query, err);
    if (status == TW_OK)
        status = tw_output_open(output, err);
    if (status == TW_OK) {
        status =
            tw_output_query(query, output->format, "runs", output->file, err);
        enum tw_status closed = tw_output_close(output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_query_close(query);
    tw_store_close(store);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.db = tw_default_db(), .output = "table"};
    struct tw_output output;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, NULL, 0, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_runs);
        return TW_OK;
    }
    if (status == TW_OK)
        status = tw_output_parse(r.output, &output, err);
    return status == TW_OK ? print_runs(r.db, &output, err) : status;
}

const struct tw_command tw_command_runs = {
    .name = "runs",
    .group = "Show",
    .summary = "list the runs of a database",
    .usage = "[--db FILE] [-o FORMAT|FILE]",
    .help =
        "One line a run: its kind, status, model, definition, tokens, loss, "
        "non-zeros\nand, where it failed, the cause.\n\n"
        "  --db FILE           database ($TWELLSCOPE_DB, else "
        "twellscope.sqlite)\n"
        "  -o, --output X      table, csv, json, jsonl, md, latex, sql, or a "
        "file whose\n"
        "                      ending picks the format\n",
    .run = run,
};
