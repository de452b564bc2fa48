/* The plan of a run: read from a run or a file (--plan), from the run that is
 * resumed, or made from what each layer does to the corpus's first tokens,
 * which are run once for it and again when they are counted. The same for every
 * batch size and shard. */
#include <config.h>

#include "run/job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#define PLAN_LIMIT (16u << 20) /* bytes of a plan's file */

/* Non-zeros of the rows seen so far, of one layer. */
struct seen {
    uint32_t *nnz;
    size_t room;
    int64_t rows, overflow_rows;
};

static struct tw_plan_subject subject_of(const struct tw_job *s)
{
    return (struct tw_plan_subject){
        .model_hash = s->model->hash,
        .backend = s->ops->name,
        .types = tw_ops_compute_dtype(s->ops, s->dtype),
        .layers = s->model->layers};
}

/* The plan of that run of the store; *text NULL where there is none. */
static enum tw_status plan_in(struct tw_store *store, const char *run,
                              char **text, struct tw_error *err)
{
    int64_t found;
    struct tw_error absent = {0};
    enum tw_status status = tw_store_run_find(store, run, &found, &absent);
    if (status == TW_ERR_NOT_FOUND)
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", absent.text);
    return tw_store_get_text(store, found, "plan", text, err);
}

/* Of the database: a part's and a scratch file's runs are elsewhere. */
static enum tw_status plan_of_run(struct tw_job *s, const char *run,
                                  char **text, struct tw_error *err)
{
    const char *path = s->o->plan_db;
    struct tw_store *store = NULL;
    if (!path)
        return s->store ? plan_in(s->store, run, text, err) : TW_OK;
    struct tw_error own = {0};
    enum tw_status status = tw_store_open(path, TW_STORE_READ, &store, &own);
    if (status == TW_ERR_NOT_FOUND) /* or empty */
        return TW_OK;
    if (status != TW_OK)
        return tw_error_set(err, status, "%s", own.text);
    status = plan_in(store, run, text, err);
    tw_store_close(store);
    return status;
}

/* A run's of the database if one has that name, else a file's. */
static enum tw_status read_given(struct tw_job *s, struct tw_error *err)
{
    const struct tw_plan_subject subject = subject_of(s);
    size_t size;
    char *text = NULL;
    enum tw_status status = plan_of_run(s, s->o->plan, &text, err);
    if (status == TW_OK && !text)
        status = tw_file_read(s->o->plan, PLAN_LIMIT, &text, &size, err);
    if (status == TW_OK)
        status = tw_plan_read(text, s->o->plan, &subject, s->plans, err);
    tw_free(text);
    return status;
}

/* Where the run to be resumed is there: its own. */
static enum tw_status read_resumed(struct tw_job *s, bool *is_there,
                                   struct tw_error *err)
{
    const struct tw_plan_subject subject = subject_of(s);
    char *text = NULL;
    enum tw_status status = plan_of_run(s, s->o->name, &text, err);
    *is_there = text != NULL;
    if (status == TW_OK && text) {
        struct tw_error own = {0};
        // another model's or backend's: named when the runs are compared
        if (tw_plan_read(text, s->o->name, &subject, s->plans, &own) != TW_OK)
            *is_there = false;
    }
    tw_free(text);
    return status;
}

static enum tw_status add_seen(struct seen *seen,
                               const struct tw_layer_obs *obs,
                               struct tw_error *err)
{
    void *array = seen->nnz;
    size_t rows = (size_t)obs->rows, have = (size_t)seen->rows;
    if (tw_grow(&array, &seen->room, have + rows, sizeof *seen->nnz) != 0)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory for a plan");
    seen->nnz = array;
    memcpy(seen->nnz + have, obs->nnz, rows * sizeof *seen->nnz);
    seen->rows += obs->rows;
    seen->overflow_rows += (int64_t)obs->overflow_rows;
    return TW_OK;
}

/* Text that can't be read ends it: the counted pass will meet the same, and
 * record it. */
static enum tw_status read_text(void *arg, struct tw_batch *batch,
                                struct tw_error *err)
{
    struct tw_error own = {0};
    if (tw_batches_next(arg, batch, &own) != TW_OK)
        batch->rows = 0;
    (void)err;
    return TW_OK;
}

/* So does a number that isn't finite. */
static enum tw_status see_batches(struct tw_job *s, struct tw_flights *flights,
                                  struct seen *seen, struct tw_error *err)
{
    for (;;) {
        struct tw_error own = {0};
        struct tw_flight *flight;
        enum tw_status status = tw_flights_next(flights, &flight, &own);
        if (status == TW_ERR_NUMERIC || status == TW_ERR_MISMATCH)
            return TW_OK;
        if (status != TW_OK)
            return tw_error_set(err, status, "%s", own.text);
        if (!flight)
            return TW_OK;
        if (s->o->stop && *s->o->stop)
            return tw_error_set(err, TW_ERR_STOPPED,
                                "interrupted before anything was counted");
        for (int64_t l = 0; l < s->model->layers && status == TW_OK; l++)
            status = add_seen(&seen[l], &flight->obs[l], err);
        if (status != TW_OK)
            return status;
    }
}

/* The corpus from its start and whole, whatever the shard, counting each
 * layer's pattern. */
static enum tw_status see_corpus(struct tw_job *s, struct seen *seen,
                                 struct tw_error *err)
{
    struct tw_active gate = {.kind = TW_ACTIVE_GATE, .name = "gate"};
    struct tw_batch_options text = s->text;
    text.shard = 0;
    text.shards = 1;
    text.from_document = text.from_start = 0;
    if (text.limit < 0 || text.limit > TW_PLAN_ROWS)
        text.limit = TW_PLAN_ROWS;
    text.file_tokens =
        tw_calloc((size_t)s->corpus.files, sizeof *text.file_tokens);
    if (!text.file_tokens)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    struct tw_flights_config config = tw_job_flights(s);
    config.probes =
        (struct tw_probes){1, s->rules.has_apply ? &s->rules.apply : &gate};
    struct tw_flights *flights = NULL;
    enum tw_status status = tw_batches_create(&s->text_again.documents, &text,
                                              &config.batches, err);
    config.read = read_text;
    config.arg = config.batches;
    if (status == TW_OK)
        status = tw_flights_create(&config, &flights, err);
    if (status == TW_OK)
        status = see_batches(s, flights, seen, err);
    if (flights) /* shorter batches where there was no memory */
        s->text.batch_tokens = tw_flights_batch_tokens(flights);
    tw_flights_destroy(flights);
    tw_batches_destroy(config.batches);
    tw_free(text.file_tokens);
    return status;
}

static enum tw_status observe(struct tw_job *s, struct tw_error *err)
{
    size_t layers = (size_t)s->model->layers;
    struct seen *seen = tw_calloc(layers, sizeof *seen);
    enum tw_status status =
        seen ? see_corpus(s, seen, err)
             : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (size_t l = 0; l < layers && status == TW_OK; l++) {
        const struct tw_ffn_seen rows = {.rows = seen[l].rows,
                                         .overflow_rows = seen[l].overflow_rows,
                                         .nnz = seen[l].nnz};
        status =
            tw_runner_plan(s->runner, (int64_t)l, &rows, &s->plans[l], err);
    }
    for (size_t l = 0; seen && l < layers; l++)
        tw_free(seen[l].nnz);
    tw_free(seen);
    return status;
}

/* Is there a choice at all? */
static bool can_observe(const struct tw_job *s)
{
    bool has_choice = false;
    for (int64_t l = 0; l < s->model->layers; l++)
        has_choice |= s->model->layer[l].ffn.path == TW_FFN_TWELL;
    return has_choice && s->ops->plan;
}

static void report_plan(const struct tw_job *s)
{
    int64_t dense = 0, layers = s->model->layers;
    for (int64_t l = 0; l < layers; l++)
        dense += s->plans[l].path == TW_FFN_DENSE;
    tw_log(TW_LOG_DEBUG, "plan: %lld of %lld layers dense", (long long)dense,
           (long long)layers);
}

enum tw_status tw_job_plan(struct tw_job *s, struct tw_error *err)
{
    const struct tw_plan_subject subject = subject_of(s);
    struct tw_strbuf text = {0};
    bool is_resumed = false;
    s->plans = tw_calloc((size_t)s->model->layers, sizeof *s->plans);
    if (!s->plans)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (int64_t l = 0; l < s->model->layers; l++)
        s->plans[l] =
            (struct tw_ffn_plan){s->model->layer[l].ffn.path, TW_NO_ROW_LIMIT};
    enum tw_status status = TW_OK;
    if (s->o->plan)
        status = read_given(s, err);
    else if (s->o->is_resume)
        status = read_resumed(s, &is_resumed, err);
    if (status == TW_OK && !s->o->plan && !is_resumed && can_observe(s))
        status = observe(s, err);
    tw_replay_rewind(&s->text_again);
    if (status == TW_OK && s->ops->plan_use)
        status = tw_runner_plan_use(s->runner, s->plans, err);
    if (status == TW_OK)
        tw_plan_write(&subject, s->plans, &text);
    if (status == TW_OK)
        s->plan = tw_strbuf_take(&text);
    if (status == TW_OK && !s->plan)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    tw_strbuf_fini(&text);
    report_plan(s);
    return status;
}
