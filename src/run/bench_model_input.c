/* What `bench model` runs over: the first tokens of a text, as profile would
 * cut it, or uniformly random ids. */
#include <config.h>

#include "run/bench_model_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

#define BATCH_TOKENS    4096
#define PAPER_CTX       2048
#define PAPER_SEQUENCES 64

static struct tw_profile_options text_options(const struct twp_model_bench *b)
{
    const struct tw_bench_model_options *o = b->o;
    struct tw_profile_options text = tw_profile_defaults;
    text.db = NULL;
    text.model = o->model;
    text.files = o->files;
    text.n_files = o->n_files;
    text.prompt = o->prompt;
    text.ctx = o->ctx;
    text.threads = o->threads;
    text.backend = o->backend;
    text.device = o->device;
    text.no_loss = o->no_loss;
    text.limit = o->batch_tokens > 0 ? o->batch_tokens : BATCH_TOKENS;
    text.batch_tokens = (int)text.limit;
    return text;
}

static void name_text(struct twp_model_bench *b)
{
    const struct tw_job *job = b->job;
    const char *more = job->corpus.files > 1 ? ", ..." : "";
    const char *path = b->o->prompt ? "prompt" : job->corpus.file[0].path;
    const char *slash = strrchr(path, '/');
    snprintf(b->to->data_name, sizeof b->to->data_name, "%s%s",
             slash ? slash + 1 : path, more);
}

static enum tw_status read_text(struct twp_model_bench *b, struct tw_error *err)
{
    struct tw_job *job = b->job;
    struct tw_batch batch;
    enum tw_status status = tw_job_open(job, err);
    if (status == TW_OK)
        status = tw_batches_create(&job->corpus.documents, &job->text,
                                   &job->batches, err);
    if (status == TW_OK)
        status = tw_batches_next(job->batches, &batch, err);
    if (status != TW_OK)
        return status;
    if (batch.rows == 0)
        return tw_error_set(err, TW_ERR_USAGE, "the text has no tokens");
    if (batch.rows < b->text.limit)
        tw_log(TW_LOG_WARNING, "the batch has %lld tokens of the %lld wanted",
               (long long)batch.rows, (long long)b->text.limit);
    b->to->ctx = job->text.ctx;
    name_text(b);
    return twp_batch_copy_add(&b->input, &batch, 0, batch.seqs, err);
}

static int64_t random_ctx(const struct twp_model_bench *b)
{
    const struct tw_model *model = b->job->model;
    int64_t ctx = b->o->ctx > 0 ? b->o->ctx : PAPER_CTX;
    if (b->o->ctx == 0 && model->max_position > 0 && model->max_position < ctx)
        ctx = model->max_position;
    return ctx;
}

/* One sequence of ids, `count` times with new ones. */
static enum tw_status make_ids(struct twp_model_bench *b, int32_t *token,
                               uint8_t *row_class, int64_t ctx, int64_t count,
                               struct tw_error *err)
{
    struct tw_random random = {b->o->seed};
    const int64_t offset[2] = {0, ctx}, start = 0;
    uint64_t vocab = (uint64_t)b->job->model->vocab;
    enum tw_status status = TW_OK;
    for (int64_t s = 0; s < count && status == TW_OK; s++) {
        const struct tw_batch one = {.rows = ctx,
                                     .seqs = 1,
                                     .offset = offset,
                                     .document = &s,
                                     .start = &start,
                                     .token = token,
                                     .row_class = row_class};
        for (int64_t i = 0; i < ctx; i++)
            token[i] = (int32_t)(tw_random_bits(&random) % vocab);
        status = twp_batch_copy_add(&b->input, &one, 0, 1, err);
    }
    return status;
}

static enum tw_status make_random(struct twp_model_bench *b,
                                  struct tw_error *err)
{
    struct tw_job *job = b->job;
    const struct tw_model_options plain = {.threads = b->o->threads};
    enum tw_status status =
        tw_model_open(b->o->model, &plain, &job->model, err);
    if (status == TW_OK)
        status = tw_ops_find(b->o->backend, &job->ops, err);
    if (status != TW_OK)
        return status;
    int64_t ctx = random_ctx(b), wanted = b->o->batch_tokens;
    int64_t count = wanted > 0 ? wanted / ctx : PAPER_SEQUENCES;
    if (count == 0)
        return tw_error_set(err, TW_ERR_USAGE,
                            "-b %lld holds no sequence of %lld tokens (-c)",
                            (long long)wanted, (long long)ctx);
    int32_t *token = tw_calloc((size_t)ctx, sizeof *token);
    uint8_t *row_class = tw_calloc((size_t)ctx, 1);
    status = token && row_class
                 ? make_ids(b, token, row_class, ctx, count, err)
                 : tw_error_set(err, TW_ERR_NOMEM, "out of memory for ids");
    tw_free(token);
    tw_free(row_class);
    b->to->ctx = ctx;
    snprintf(b->to->data_name, sizeof b->to->data_name, "random ids, seed %llu",
             (unsigned long long)b->o->seed);
    return status;
}

static enum tw_status make_obs(struct twp_model_bench *b, struct tw_error *err)
{
    const struct tw_model *model = b->job->model;
    int64_t rows = b->input.batch.rows;
    enum tw_status status = TW_OK;
    b->obs = tw_calloc((size_t)model->layers, sizeof *b->obs);
    if (!b->obs)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (int64_t l = 0; l < model->layers && status == TW_OK; l++)
        status = tw_layer_obs_init(&b->obs[l], rows, model->d_ff, 1, 1, 0, err);
    if (status != TW_OK || b->o->no_loss || b->o->is_paper)
        return status;
    b->head.nll = tw_alloc((size_t)rows, sizeof *b->head.nll);
    return b->head.nll ? TW_OK
                       : tw_error_set(err, TW_ERR_NOMEM, "out of memory");
}

enum tw_status twp_model_bench_open(struct twp_model_bench *b,
                                    struct tw_error *err)
{
    b->job = tw_calloc(1, sizeof *b->job);
    if (!b->job)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    b->text = text_options(b);
    b->job->o = &b->text;
    enum tw_status status =
        b->o->is_paper ? make_random(b, err) : read_text(b, err);
    if (status == TW_OK)
        status = make_obs(b, err);
    if (status != TW_OK)
        return status;
    return tw_job_open_runner(b->job, b->input.batch.rows, err);
}
