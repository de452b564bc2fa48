/* twellscope diff: two runs of models of one shape. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>

#include "cmd/arguments.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "run/diff.h"

struct request {
    struct tw_diff_options diff;
    const char *output;
    int64_t neurons;
    bool wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, diff.db), 0},
    {"active", 0, TW_ARG_TEXT, offsetof(struct request, diff.active), 0},
    {"neurons", 0, TW_ARG_COUNT, offsetof(struct request, neurons), 1},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

static enum tw_status show(const struct request *r, struct tw_output *output,
                           struct tw_error *err)
{
    struct tw_store *store = NULL;
    struct tw_query *query = NULL;
    enum tw_status status = tw_diff_open(&r->diff, &store, err);
    if (status == TW_OK)
        status = tw_query_open(
            store, r->neurons ? tw_diff_neurons_sql : tw_diff_layers_sql,
            &query, err);
    if (status == TW_OK)
        status = tw_query_bind_int(query, ":limit", r->neurons, err);
    if (status == TW_OK)
        status = tw_output_open(output, err);
    if (status == TW_OK) {
        status =
            tw_output_query(query, output->format, "diff", output->file, err);
        enum tw_status closed = tw_output_close(output, err);
        status = status == TW_OK ? closed : status;
    }
    tw_query_close(query);
    tw_store_close(store);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.diff.db = tw_default_db(), .output = "table"};
    struct tw_output output;
    enum tw_status status = tw_arguments_parse(
        argc, argv, arguments, &r, &r.wants_help, r.diff.run, 2, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_diff);
        return TW_OK;
    }
    if (status == TW_OK && !r.diff.run[1])
        status = tw_error_set(err, TW_ERR_USAGE, "say which two runs");
    if (status == TW_OK)
        status = tw_output_parse(r.output, &output, err);
    return status == TW_OK ? show(&r, &output, err) : status;
}

const struct tw_command tw_command_diff = {
    .name = "diff",
    .group = "Show",
    .summary = "compare two runs, layer by layer and neuron by neuron",
    .usage = "A B [--db FILE] [--active DEF] [--neurons K] [-o FORMAT|FILE]",
    .help =
        "A and B are runs of the database, or FILE:RUN, of models with equal "
        "layers and\nwidth. One line a layer: both mean non-zeros, the "
        "difference B - A with its\ncombined standard error and z, dead "
        "neurons "
        "of each, those newly dead (fired in A,\nnever in B) and revived, and "
        "the drift of firing rates: the mean and the largest\n|rate_b - "
        "rate_a| "
        "of a neuron.\n\n"
        "  --db FILE       database ($TWELLSCOPE_DB, else twellscope.sqlite)\n"
        "  --active DEF    definition to compare (the first of both)\n"
        "  --neurons K     instead the K neurons whose rates differ most\n"
        "  -o, --output X  table, csv, json, jsonl, md, latex, sql, or a file "
        "whose\n"
        "                  ending picks the format\n",
    .run = run,
};
