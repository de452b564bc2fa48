/* The loop of a profile: batches in, counts kept, checkpoints out. */
#include <config.h>

#include "run/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/threads.h"
#include "run/job.h"

const struct tw_profile_options tw_profile_defaults = {.db =
                                                           "twellscope.sqlite",
                                                       .batch_tokens = 4096,
                                                       .backend = "auto",
                                                       .split = "docs",
                                                       .bos = "auto",
                                                       .doc_sep = "auto",
                                                       .field = "text",
                                                       .skip = "none",
                                                       .limit = -1,
                                                       .shards = 1,
                                                       .checkpoint_seconds = -1,
                                                       .time_limit_seconds = -1,
                                                       .tolerance = -1,
                                                       .command = ""};

static enum tw_status record(struct tw_job *s, const struct tw_flight *flight,
                             struct tw_error *err)
{
    const struct tw_batch *batch = &flight->text.batch;
    const struct tw_head_obs *head = s->o->no_loss ? NULL : &flight->head;
    double begin = tw_job_clock();
    enum tw_status status =
        tw_profile_add(s->profile, batch, flight->obs, head, err);
    if (status == TW_OK && s->ledger)
        status = tw_ledger_add(s->ledger, batch, flight->obs, head, err);
    if (status == TW_OK && s->examples)
        status = tw_examples_add(s->examples, batch, flight->obs, err);
    if (s->oracle)
        tw_oracle_add(s->oracle, batch, flight->obs, head,
                      flight->logits.logits);
    int64_t last = batch->seqs - 1;
    s->next_document = batch->document[last];
    s->next_start =
        batch->start[last] + batch->offset[last + 1] - batch->offset[last];
    s->report->times.record += tw_job_clock() - begin;
    return status;
}

static void report_progress(struct tw_job *s, double begin, int64_t rows)
{
    struct tw_batch_totals totals;
    struct tw_profile_layer layer;
    int64_t layers = s->model->layers;
    if (!s->o->progress)
        return;
    tw_batches_totals(s->batches, &totals);
    struct tw_progress progress = {.tokens = rows,
                                   .seconds = tw_job_clock() - begin,
                                   .fraction = tw_corpus_fraction(&s->corpus)};
    if (s->o->limit > 0) {
        double done = (double)totals.text_tokens / (double)s->o->limit;
        if (done > progress.fraction)
            progress.fraction = done < 1 ? done : 1;
    }
    for (int64_t l = 0; l < layers; l++) {
        tw_profile_layer(s->profile, 0, (int)l, &layer);
        if (layer.tokens > 0)
            progress.mean_nnz += layer.mean_nnz / (double)layers;
    }
    s->o->progress(s->o->progress_arg, &progress);
}

static bool is_checkpoint_due(const struct tw_job *s)
{
    double since = tw_job_clock() - s->last_checkpoint;
    double automatic = 50 * s->checkpoint_cost;
    if (tw_job_ledger_is_full(s))
        return true;
    if (s->o->checkpoint_seconds >= 0)
        return since >= s->o->checkpoint_seconds;
    return since >= (automatic > 10 ? automatic : 10);
}

/* One that meets a reader of the file is left for later, not fatal. */
static enum tw_status checkpoint(struct tw_job *s, struct tw_error *err)
{
    struct tw_error own = {0};
    if (tw_job_beside_start(s))
        return TW_OK;
    enum tw_status status = tw_job_checkpoint(s, false, false, &own);
    if (status == TW_ERR_BUSY) {
        tw_log(TW_LOG_WARNING, "%s: this checkpoint is left out", own.text);
        return TW_OK;
    }
    return status == TW_OK ? TW_OK : tw_error_set(err, status, "%s", own.text);
}

/* Stops at a checkpoint: the run can be resumed. */
static enum tw_status stop(struct tw_job *s, const char *why, int64_t rows,
                           struct tw_error *err)
{
    enum tw_status status = tw_job_beside_end(s, err);
    if (status == TW_OK)
        status = tw_job_checkpoint(s, false, true, err);
    if (status != TW_OK)
        return status;
    return tw_error_set(err, TW_ERR_STOPPED,
                        "%s: stopped at a checkpoint after %lld rows of this "
                        "start; go on with --name %s --resume",
                        why, (long long)rows, s->name);
}

/* The next batch; an error about a document also names its file. */
static enum tw_status read_text(void *arg, struct tw_batch *batch,
                                struct tw_error *err)
{
    const struct tw_job *s = arg;
    enum tw_status status = tw_batches_next(s->batches, batch, err);
    const char *path = s->corpus.file[tw_batches_file(s->batches)].path;
    if (status != TW_OK && err && strncmp(err->text, "document ", 9) == 0)
        tw_error_prefix(err, "%s", path);
    return status;
}

static enum tw_status open_flights(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status =
        tw_batches_create(&s->text_again.documents, &s->text, &s->batches, err);
    struct tw_flights_config config = tw_job_counting(s);
    config.batches = s->batches;
    config.read = read_text;
    config.arg = s;
    return status == TW_OK ? tw_flights_create(&config, &s->flights, err)
                           : status;
}

/* Batch by batch: whatever is stored is of whole batches, those before it
 * included. */
static enum tw_status count(struct tw_job *s, double begin,
                            struct tw_error *err)
{
    int64_t rows = 0;
    enum tw_status status = TW_OK;
    while (status == TW_OK) {
        struct tw_flight *flight;
        status = tw_flights_next(s->flights, &flight, err);
        if (status != TW_OK || !flight)
            break;
        status = record(s, flight, err);
        rows += flight->text.batch.rows;
        if (status != TW_OK)
            break;
        report_progress(s, begin, rows);
        if (s->o->stop && *s->o->stop)
            return stop(s, "interrupted", rows, err);
        if (s->o->time_limit_seconds >= 0 &&
            tw_job_clock() - begin >= s->o->time_limit_seconds)
            return stop(s, "time limit reached", rows, err);
        if (tw_job_beside_runs(s))
            continue;
        status = tw_job_beside_end(s, err);
        if (status == TW_OK && is_checkpoint_due(s))
            status = checkpoint(s, err);
    }
    return status;
}

static void report_times(struct tw_job *s)
{
    struct tw_profile_times *to = &s->report->times;
    struct tw_flights_times times;
    tw_flights_times(s->flights, &times);
    to->text = times.text;
    to->compute = times.compute;
    if (times.device > 0 && times.span > 0)
        to->device_busy = times.device / times.span;
}

/* What --strict refuses of a complete run, from what is stored, so that a
 * --resume that finds it complete says the same. */
static enum tw_status check_strict(struct tw_job *s, struct tw_error *err)
{
    int64_t dense = 0;
    size_t at = 0;
    if (s->model->is_activation_assumed)
        return tw_error_set(err, TW_ERR_LOST,
                            "--strict: the activation %s is assumed, for the "
                            "file names none; --activation says it",
                            s->model->activation.name);
    enum tw_status status = tw_record_dense_rows(s->store, s->run, &dense, err);
    if (status != TW_OK)
        return status;
    if (dense > 0)
        return tw_error_set(err, TW_ERR_LOST,
                            "--strict: %lld (token, layer) rows ran dense",
                            (long long)dense);
    const char *unused = tw_model_unused(s->model, &at);
    if (unused)
        return tw_error_set(err, TW_ERR_LOST, "--strict: tensor '%s' is unused",
                            unused);
    if (s->o->limit >= 0)
        return tw_error_set(err, TW_ERR_LOST,
                            "--strict: --limit may have cut the text");
    return TW_OK;
}

/* The end of counting: parity, the last commit, what --strict refuses. */
static enum tw_status conclude(struct tw_job *s, struct tw_error *err)
{
    struct tw_profile_totals totals;
    tw_profile_totals(s->profile, &totals);
    if (totals.rows == 0 && s->o->shards == 1)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: no text",
                            s->corpus.file[0].path);
    enum tw_status status = tw_job_checkpoint(s, true, true, err);
    if (status != TW_OK)
        return status;
    s->report->is_complete = true;
    s->report->tokens = totals.tokens;
    s->report->mean_nll = totals.mean_nll;
    if (s->oracle && s->is_within)
        tw_log(TW_LOG_INFO, "parity: %s", s->parity);
    if (s->oracle && !s->is_within)
        return tw_error_set(err, TW_ERR_LOST, "parity: out of bounds: %s",
                            s->parity);
    return s->o->is_strict ? check_strict(s, err) : TW_OK;
}

static enum tw_status prepare(struct tw_job *s, struct tw_error *err)
{
    const struct tw_model *model = s->model;
    enum tw_status status = tw_job_open_runner(s, s->o->batch_tokens, err);
    if (status == TW_OK && s->oracle)
        status = tw_oracle_prepare(s->oracle, model->layers, model->d_ff,
                                   model->vocab, err);
    return status;
}

/* Seconds since the last lap. */
static double lap(double *from)
{
    double before = *from;
    *from = tw_job_clock();
    return *from - before;
}

static enum tw_status run_job(struct tw_job *s, struct tw_error *err)
{
    struct tw_profile_times *times = &s->report->times;
    double begin = tw_job_clock(), from = begin;
    enum tw_status status = tw_job_open(s, err);
    times->load = lap(&from);
    if (status == TW_OK)
        status = prepare(s, err);
    times->start = lap(&from);
    if (status == TW_OK && s->o->is_dry_run)
        tw_log(TW_LOG_INFO,
               "dry run: model and text can be opened; %s, ctx %lld, nothing "
               "counted",
               s->model->activation.name, (long long)s->text.ctx);
    if (status != TW_OK || s->o->is_dry_run)
        return status;
    s->report->vocab = s->model->vocab;
    status = tw_job_plan(s, err);
    times->plan = lap(&from);
    if (status == TW_OK)
        status = tw_job_begin(s, err);
    times->begin = lap(&from);
    snprintf(s->report->name, sizeof s->report->name, "%s", s->name);
    if (status == TW_OK && s->report->was_complete && s->o->is_strict)
        status = check_strict(s, err);
    if (status != TW_OK || s->report->was_complete)
        return status;
    s->text.from_document = s->next_document;
    s->text.from_start = s->next_start;
    status = open_flights(s, err);
    s->last_checkpoint = tw_job_clock();
    if (status == TW_OK) {
        status = count(s, begin, err);
        struct tw_error own = {0};
        enum tw_status last = tw_job_beside_end(s, &own);
        if (status == TW_OK && last != TW_OK)
            status = tw_error_set(err, last, "%s", own.text);
        report_times(s);
    }
    if (status == TW_OK)
        status = conclude(s, err);
    if (status != TW_OK && status != TW_ERR_STOPPED && s->run &&
        !s->report->is_complete)
        tw_record_failure(s->store, s->run, s->writer,
                          err ? err->text : tw_status_text(status));
    return status;
}

enum tw_status tw_profile_run(const struct tw_profile_options *options,
                              struct tw_profile_report *report,
                              struct tw_error *err)
{
    struct tw_profile_options resolved = *options;
    if (resolved.threads <= 0)
        resolved.threads = tw_threads_available();
    *report = (struct tw_profile_report){.mean_nll = NAN,
                                         .is_stored = !options->is_dry_run,
                                         .times.device_busy = NAN};
    struct tw_job job = {.o = &resolved, .report = report};
    double begin = tw_job_clock();
    struct tw_error own = {0};
    enum tw_status status = run_job(&job, err ? err : &own);
    snprintf(report->writer, sizeof report->writer, "%s", job.writer);
    double from = tw_job_clock();
    tw_job_close(&job);
    report->times.close = lap(&from);
    report->times.total = from - begin;
    return status;
}
