/* twellscope import: what other programs measured. */
#include <config.h>

#include "cmd/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/arguments.h"
#include "cmd/options.h"
#include "db/store.h"
#include "run/record.h"
#include "run/trainlog.h"

struct request {
    const char *db, *name, *file, *command;
    bool wants_help;
};

static const struct tw_argument arguments[] = {
    {"db", 0, TW_ARG_TEXT, offsetof(struct request, db), 0},
    {"name", 0, TW_ARG_TEXT, offsetof(struct request, name), 0},
    {NULL, 0, TW_ARG_FLAG, 0, 0}};

/* "runs/trainer_state.json": "trainer_state", -2, -3 where it is taken. */
static enum tw_status choose_name(const struct request *r,
                                  struct tw_store *store, char *name,
                                  size_t size, struct tw_error *err)
{
    char base[200];
    if (r->name) {
        snprintf(name, size, "%s", r->name);
        return TW_OK;
    }
    snprintf(base, sizeof base, "%s", tw_path_base(r->file));
    char *dot = strrchr(base, '.');
    if (dot && dot != base)
        *dot = '\0';
    return tw_record_free_name(store, base, name, size, err);
}

static enum tw_status put_facts(const struct request *r,
                                const struct tw_trainlog *log,
                                struct tw_store *store, int64_t run,
                                struct tw_error *err)
{
    struct tw_facts facts = {0};
    if (log->layers > 0)
        tw_facts_int(&facts, "layers", NULL, log->layers);
    tw_facts_text(&facts, "command", NULL, r->command);
    tw_facts_text(&facts, "status", NULL, "complete");
    enum tw_status status = tw_facts_store(&facts, store, run, err);
    tw_facts_fini(&facts);
    return status == TW_OK ? tw_record_finished(store, run, err) : status;
}

static enum tw_status store_log(const struct request *r,
                                const struct tw_trainlog *log, char name[256],
                                struct tw_error *err)
{
    struct tw_store *store = NULL;
    int64_t run = 0;
    enum tw_status status = tw_store_open(r->db, TW_STORE_WRITE, &store, err);
    if (status == TW_OK)
        status = tw_store_begin(store, err);
    if (status == TW_OK)
        status = choose_name(r, store, name, 256, err);
    if (status == TW_OK)
        status = tw_store_run_create(store, name, "train", &run, err);
    if (status == TW_OK)
        status = tw_trainlog_store(log, store, run, err);
    if (status == TW_OK)
        status = put_facts(r, log, store, run, err);
    if (status == TW_OK)
        status = tw_store_commit(store, err);
    tw_store_close(store);
    return status;
}

static enum tw_status import(const struct request *r, struct tw_error *err)
{
    struct tw_trainlog log;
    char name[256];
    enum tw_status status = tw_trainlog_read(r->file, &log, err);
    if (status == TW_OK)
        status = store_log(r, &log, name, err);
    if (status == TW_OK) {
        tw_log(TW_LOG_INFO, "%s: run '%s': %lld steps, %d layers", r->db, name,
               (long long)log.steps, (int)log.layers);
        if (log.unknown.length > 0)
            tw_log(TW_LOG_INFO, "%s: columns left out: %s", r->file,
                   tw_strbuf_text(&log.unknown));
        if (log.without_step > 0)
            tw_log(TW_LOG_INFO, "%s: %lld rows without a step left out",
                   r->file, (long long)log.without_step);
    }
    tw_trainlog_fini(&log);
    return status;
}

static enum tw_status run(int argc, char **argv, struct tw_error *err)
{
    struct request r = {.db = tw_default_db()};
    const char *words[2] = {NULL, NULL};
    struct tw_strbuf command = {0};
    enum tw_status status = tw_arguments_parse(argc, argv, arguments, &r,
                                               &r.wants_help, words, 2, err);
    if (status == TW_OK && r.wants_help) {
        tw_print_help(&tw_command_import);
        return TW_OK;
    }
    if (status == TW_OK &&
        (!words[0] || strcmp(words[0], "trainlog") != 0 || !words[1]))
        status = tw_error_set(err, TW_ERR_USAGE,
                              "say what to import: trainlog FILE");
    if (status != TW_OK)
        return status;
    tw_command_line(&command, argc, argv);
    r.command = tw_strbuf_text(&command);
    r.file = words[1];
    status = import(&r, err);
    tw_strbuf_fini(&command);
    return status;
}

const struct tw_command tw_command_import = {
    .name = "import",
    .group = "Measure",
    .summary = "take in a log that another trainer wrote",
    .usage = "trainlog FILE [--db FILE] [--name RUN]",
    .help =
        "Reads a Hugging Face trainer_state.json, a CSV that wandb exported, "
        "or "
        "JSON lines\n(also one JSON array) into training_steps and "
        "training_layers, as a run of kind\ntrain. Columns are known by name: "
        "step, tokens, loss, ce, l1, l1_coefficient,\nlr or learning_rate, "
        "grad_norm, nnz or mean_nnz, max_nnz, alive, dense_rows,\nstep_ms, "
        "tokens_per_second, ..., with or without train/. A list, or nnz/0, "
        "nnz/1,\n..., is a value a layer. Others are named and left out, never "
        "guessed. Where a\nstep comes twice, the later values count.\n\n"
        "  --db FILE       database ($TWELLSCOPE_DB, else twellscope.sqlite)\n"
        "  --name RUN      the run's name (the file's, then -2, -3)\n",
    .run = run,
};
