/* twellscope runs: what a database holds; tags, names, deletion. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"

#include "cmd/arguments.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "db/query.h"
#include "db/store.h"
#include "run/rules.h"

static const char list[] =
    "SELECT run, kind, status, model, active, tokens, round(mean_nll, 4) AS "
    "mean_nll,\n"
    "  (SELECT round(avg(mean_nnz), 2) FROM layer_stats l WHERE l.run = r.run)"
    " AS mean_nnz,\n"
    "  backend, started, cause FROM run_info r ORDER BY started, run";

struct request {
    const char *db, *output, *tag, *rename, *delete;
    bool wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"output", 'o', TW_ARG_TEXT, offsetof(struct request, output), 0},
    {"tag", 0, TW_ARG_TEXT, offsetof(struct request, tag), 0},
    {"rename", 0, TW_ARG_TEXT, offsetof(struct request, rename), 0},
    {"delete", 0, TW_ARG_TEXT, offsetof(struct request, delete), 0},
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

static enum tw_status tag(struct tw_store *store, int64_t run, const char *pair,
                          struct tw_error *err)
{
    char key[TW_MAX_TAG + 1];
    enum tw_status status = tw_rules_tag(pair, key, err);
    const char *value = strchr(pair, '=');
    if (status != TW_OK)
        return status;
    return tw_store_put_tag(store, run, key, value[1] ? value + 1 : NULL, err);
}

static enum tw_status rename_run(struct tw_store *store, int64_t run,
                                 const char *name, struct tw_error *err)
{
    int64_t other;
    struct tw_error absent = {0};
    enum tw_status status = tw_store_run_find(store, name, &other, &absent);
    if (status == TW_OK)
        return tw_error_set(err, TW_ERR_EXISTS, "%s: run '%s' is there already",
                            tw_store_path(store), name);
    if (status != TW_ERR_NOT_FOUND)
        return tw_error_set(err, status, "%s", absent.text);
    return tw_store_set_text(store, run, "run", name, err);
}

/* One change of one run, in a transaction of its own. */
static enum tw_status change(const struct request *r, const char *word,
                             struct tw_error *err)
{
    struct tw_store *store = NULL;
    int64_t run;
    const char *name = r->tag ? r->tag : r->rename ? r->rename : r->delete;
    enum tw_status status = tw_store_open(r->db, TW_STORE_CHANGE, &store, err);
    if (status == TW_OK)
        status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = tw_store_run_find(store, name, &run, err);
    if (status == TW_OK && r->tag)
        status = tag(store, run, word, err);
    else if (status == TW_OK && r->rename)
        status = rename_run(store, run, word, err);
    else if (status == TW_OK)
        status = tw_store_run_delete(store, run, err);
    if (status == TW_OK)
        status = tw_store_commit(store, err);
    tw_store_close(store);
    if (status == TW_OK)
        tw_log(TW_LOG_INFO, "%s: run '%s' %s", r->db, name,
               r->tag      ? "tagged"
               : r->rename ? "renamed"
                           : "deleted");
    return status;
}

/* At most one change; --tag and --rename take a second word. */
static enum tw_status check(const struct request *r, const char *word,
                            struct tw_error *err)
{
    int changes = !!r->tag + !!r->rename + !!r->delete;
    bool needs_word = r->tag || r->rename;
    if (changes > 1)
        return tw_error_set(err, TW_ERR_USAGE,
                            "one of --tag, --rename, --delete at a time");
    if (needs_word && (!word || !*word))
        return tw_error_set(err, TW_ERR_USAGE, "%s",
                            r->tag ? "--tag RUN KEY=VALUE"
                                   : "--rename RUN NAME");
    if (!needs_word && word)
        return tw_error_set(err, TW_ERR_USAGE, "'%s' is no option", word);
    char key[TW_MAX_TAG + 1];
    return r->tag ? tw_rules_tag(word, key, err) : TW_OK;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.db = tw_default_db(), .output = "table"};
    struct tw_output output;
    const char *word = NULL;
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, &word, 1, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_runs);
        return TW_OK;
    }
    if (status == TW_OK)
        status = check(&r, word, err);
    if (status == TW_OK && (r.tag || r.rename || r.delete))
        return change(&r, word, err);
    if (status == TW_OK)
        status = tw_output_parse(r.output, &output, err);
    return status == TW_OK ? print_runs(r.db, &output, err) : status;
}

const struct tw_command tw_command_runs = {
    .name = "runs",
    .group = "Show",
    .summary = "list the runs of a database; tag, rename, delete them",
    .usage = "[--tag RUN KEY=VALUE | --rename RUN NAME | --delete RUN] [--db "
             "FILE] [-o FORMAT|FILE]",
    .help =
        "One line a run: its kind, status, model, definition, tokens, loss, "
        "non-zeros\nand, where it failed, the cause.\n\n"
        "  --tag RUN KEY=VALUE tag a run; KEY= takes the tag away\n"
        "  --rename RUN NAME   give a run another name\n"
        "  --delete RUN        delete a run and all it counted\n"
        "  --db FILE           database ($TWELLSCOPE_DB, else "
        "twellscope.sqlite)\n"
        "  -o, --output X      table, csv, json, jsonl, md, latex, sql, or a "
        "file whose\n"
        "                      ending picks the format\n",
    .run = run,
};
