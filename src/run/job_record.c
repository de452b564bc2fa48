/* The commits of a profile: first, checkpoints, last. */
#include <config.h>

#include "run/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store_profile.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/strbuf.h"

/* From here on this process counts; one that did so before stops at its next
 * checkpoint (a requeued job whose first start is still alive). */
static enum tw_status take_over(struct tw_job *s, struct tw_error *err)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(s->writer, sizeof s->writer, "%ld.%lld.%ld", (long)getpid(),
             (long long)t.tv_sec, t.tv_nsec);
    enum tw_status status =
        tw_store_set_text(s->store, s->run, "writer", s->writer, err);
    if (status == TW_OK)
        status =
            tw_store_set_text(s->store, s->run, "status", "interrupted", err);
    if (status == TW_OK)
        status = tw_store_set_text(s->store, s->run, "cause", NULL, err);
    return status;
}

static enum tw_status check_writer(struct tw_job *s, struct tw_error *err)
{
    char *writer = NULL;
    enum tw_status status =
        tw_store_get_text(s->store, s->run, "writer", &writer, err);
    if (status == TW_OK && (!writer || strcmp(writer, s->writer) != 0)) {
        status = tw_error_set(err, TW_ERR_MISMATCH,
                              "%s: run '%s' was taken over by another process",
                              s->o->db, s->name);
        s->run = 0; /* not ours any more: its status is not for us to write */
    }
    tw_free(writer);
    return status;
}

/* The definitions and the corpora, each list as one text. */
static enum tw_status compare_lists(struct tw_job *s, struct tw_error *err)
{
    struct tw_strbuf active = {0}, corpora = {0};
    for (int i = 0; i < s->rules.n_active; i++)
        tw_strbuf_printf(&active, "%s%s", i ? " " : "",
                         s->rules.active[i].name);
    for (int i = 0; i < s->corpus.files; i++)
        tw_strbuf_printf(&corpora, "%s%s", i ? " " : "",
                         s->corpus.file[i].sha256);
    enum tw_status status =
        tw_record_compare_list(s->store, s->run, s->name, TW_LIST_ACTIVE,
                               tw_strbuf_text(&active), err);
    if (status == TW_OK)
        status =
            tw_record_compare_list(s->store, s->run, s->name, TW_LIST_CORPORA,
                                   tw_strbuf_text(&corpora), err);
    tw_strbuf_fini(&active);
    tw_strbuf_fini(&corpora);
    return status;
}

static enum tw_status resume(struct tw_job *s, struct tw_error *err)
{
    char *run_status = NULL;
    s->is_resumed = true;
    enum tw_status status =
        tw_facts_compare(&s->facts, s->store, s->run, s->name, err);
    if (status == TW_OK)
        status = compare_lists(s, err);
    if (status == TW_OK)
        status =
            tw_store_get_text(s->store, s->run, "status", &run_status, err);
    if (status == TW_OK && run_status && strcmp(run_status, "complete") == 0) {
        s->report->was_complete = true;
    } else if (status == TW_OK) {
        status = tw_store_begin(s->store, err);
        if (status == TW_OK)
            status = take_over(s, err);
        if (status == TW_OK)
            status = tw_job_put_tags(s, err);
        if (status == TW_OK)
            status = tw_profile_restore(s->profile, s->store, s->run, err);
        if (status == TW_OK && s->ledger)
            status = tw_ledger_restore(s->ledger, s->store, s->run, err);
        if (status == TW_OK && s->examples)
            status = tw_examples_restore(s->examples, s->store, s->run, err);
        if (status == TW_OK)
            status = tw_store_get_int(s->store, s->run, "next_document",
                                      &s->next_document, err);
        if (status == TW_OK)
            status = tw_store_get_int(s->store, s->run, "next_start",
                                      &s->next_start, err);
        if (s->next_document == TW_NULL || s->next_start == TW_NULL)
            s->next_document = s->next_start = 0;
        if (status == TW_OK)
            status = tw_store_commit(s->store, err);
        else
            tw_store_rollback(s->store);
    }
    tw_free(run_status);
    return status;
}

static enum tw_status create(struct tw_job *s, int64_t replaced,
                             struct tw_error *err)
{
    enum tw_status status = tw_store_begin(s->store, err);
    if (status == TW_OK && replaced)
        status = tw_store_run_delete(s->store, replaced, err);
    int64_t run = 0;
    if (status == TW_OK)
        status = tw_store_run_create(s->store, s->name, "profile", &run, err);
    s->run = run;
    if (status == TW_OK)
        status = tw_facts_store(&s->facts, s->store, run, err);
    if (status == TW_OK)
        status = take_over(s, err);
    if (status == TW_OK)
        status = tw_job_put_definitions(s, err);
    if (status == TW_OK)
        status = tw_job_put_tags(s, err);
    if (status == TW_OK)
        status = tw_job_put_corpora(s, false, err);
    if (status == TW_OK)
        status = tw_job_put_pieces(s, err);
    if (status == TW_OK)
        status = tw_store_commit(s->store, err);
    if (status != TW_OK) {
        tw_store_rollback(s->store);
        s->run = 0; /* nothing of it is in the file */
    }
    return status;
}

enum tw_status tw_job_begin(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    tw_job_gather(s);
    if (!s->store)
        status = tw_store_open(s->o->db, TW_STORE_WRITE, &s->store, err);
    if (status != TW_OK)
        return status;
    const char *wanted = s->o->name ? s->o->name : s->model->checkpoint.name;
    if (!s->o->name)
        status =
            tw_record_free_name(s->store, wanted, s->name, sizeof s->name, err);
    else
        snprintf(s->name, sizeof s->name, "%s", wanted);
    if (status != TW_OK)
        return status;
    int64_t old = 0;
    struct tw_error absent = {0};
    status = tw_store_run_find(s->store, s->name, &old, &absent);
    if (status == TW_ERR_NOT_FOUND)
        old = 0;
    else if (status != TW_OK)
        return tw_error_set(err, status, "%s", absent.text);
    if (old && s->o->is_resume) {
        s->run = old;
        status = resume(s, err);
        if (status != TW_OK)
            s->run = 0; /* a refused run is left as it was */
        return status;
    }
    if (old && !s->o->is_replace) /* it came while the model was read */
        return tw_error_set(err, TW_ERR_EXISTS, "%s: run '%s' is there already",
                            s->o->db, s->name);
    return create(s, old, err);
}

/* What only the end knows: the text's own numbers. */
static enum tw_status put_text_facts(struct tw_job *s, struct tw_error *err)
{
    struct tw_batch_totals totals;
    struct tw_profile_totals sums;
    tw_batches_totals(s->batches, &totals);
    tw_profile_totals(s->profile, &sums);
    bool has_ids = false;
    for (int i = 0; i < s->corpus.files; i++)
        has_ids |= s->corpus.file[i].is_ids;
    int64_t bytes = has_ids ? TW_NULL : totals.text_bytes;
    enum tw_status status =
        tw_store_set_int(s->store, s->run, "bytes", bytes, err);
    if (status == TW_OK && s->rules.split == TW_SPLIT_STREAM)
        status = tw_store_set_int(s->store, s->run, "documents",
                                  totals.documents, err);
    /* Every text token at the mean loss, so that a shorter context, with more
     * tokens that have none, does not look better. */
    bool is_whole = bytes > 0 && !totals.is_limited && s->o->shards == 1 &&
                    sums.predicted > 0;
    double bits = sums.mean_nll / log(2) * (double)totals.text_tokens;
    if (status == TW_OK)
        status = tw_store_set_real(s->store, s->run, "bits_per_byte",
                                   is_whole ? bits / (double)bytes : NAN, err);
    return status;
}

static enum tw_status put_end(struct tw_job *s, struct tw_error *err)
{
    enum tw_status status =
        tw_profile_finish(s->profile, s->store, s->run, err);
    if (status == TW_OK)
        status = tw_job_put_corpora(s, true, err);
    if (status == TW_OK)
        status = put_text_facts(s, err);
    if (status == TW_OK && s->oracle)
        status =
            tw_oracle_compare(s->oracle, s->store, s->run, s->o->tolerance,
                              &s->is_within, s->parity, sizeof s->parity, err);
    if (status == TW_OK)
        status = tw_record_finished(s->store, s->run, err);
    if (status == TW_OK)
        status = tw_store_set_text(s->store, s->run, "cause", NULL, err);
    if (status == TW_OK)
        status = tw_store_set_text(s->store, s->run, "status", "complete", err);
    return status;
}

/* A reader holds the file: its transaction stays open, so the commit alone is
 * tried again (each try waits for some seconds by itself). */
#define PATIENCE 60
static enum tw_status retry_commit(struct tw_job *s, int tried,
                                   struct tw_error *err)
{
    if (tried == 0)
        tw_log(TW_LOG_WARNING, "%s: another program is reading: waiting for it",
               s->o->db);
    if (err)
        *err = (struct tw_error){0};
    return tw_store_commit(s->store, err);
}

/* In the last commit: one of its own would wait for the disk as long. */
static void analyze(struct tw_job *s)
{
    struct tw_error unimportant = {0};
    if (tw_store_analyze(s->store, &unimportant) != TW_OK)
        tw_log(TW_LOG_WARNING, "%s: not analyzed", unimportant.text);
}

/* Documents are in the file by now, so the end can number the sequences. */
static enum tw_status save_ledger(struct tw_job *s, bool is_last,
                                  struct tw_error *err)
{
    enum tw_status status = tw_ledger_save(s->ledger, s->store, s->run, err);
    if (status == TW_OK && is_last)
        status = tw_ledger_number(s->store, s->run, err);
    return status;
}

enum tw_status tw_job_commit(struct tw_job *s, const struct tw_job_state *state,
                             bool is_last, bool is_patient,
                             struct tw_error *err)
{
    enum tw_status status = tw_store_begin(s->store, err);
    if (status == TW_OK)
        status = check_writer(s, err);
    if (status == TW_OK && is_last)
        status = put_end(s, err);
    else if (status == TW_OK)
        status = tw_profile_save(state->profile, s->store, s->run, err);
    if (status == TW_OK && s->ledger)
        status = save_ledger(s, is_last, err);
    if (status == TW_OK && s->examples)
        status = tw_examples_save(s->examples, s->store, s->run, err);
    if (status == TW_OK)
        status = tw_store_set_int(s->store, s->run, "next_document",
                                  state->next_document, err);
    if (status == TW_OK)
        status = tw_store_set_int(s->store, s->run, "next_start",
                                  state->next_start, err);
    if (status == TW_OK && is_last)
        analyze(s);
    if (status == TW_OK)
        status = tw_store_commit(s->store, err);
    for (int i = 0; status == TW_ERR_BUSY && is_patient && i < PATIENCE; i++)
        status = retry_commit(s, i, err);
    if (status != TW_OK)
        tw_store_rollback(s->store);
    else if (s->ledger)
        tw_ledger_saved(s->ledger);
    return status;
}

enum tw_status tw_job_checkpoint(struct tw_job *s, bool is_last,
                                 bool is_patient, struct tw_error *err)
{
    const struct tw_job_state state = {s->profile, s->next_document,
                                       s->next_start};
    double begin = tw_job_clock();
    enum tw_status status = tw_job_commit(s, &state, is_last, is_patient, err);
    s->last_checkpoint = tw_job_clock();
    s->checkpoint_cost = s->last_checkpoint - begin;
    s->report->times.checkpoint += s->checkpoint_cost;
    s->report->times.checkpoints++;
    return status;
}
