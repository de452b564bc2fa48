/* Recorded rows: a checkpoint's forward pass over a text on the cpu backend,
 * through a table of operations whose `ffn` looks at its input first. */
#include <config.h>

#include "run/bench_data.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "run/job.h"

/* Found again from the probes, which the runner hands to `ffn` as they are. */
struct tap {
    struct tw_probes probes; /* first: a pointer to it is one to the tap */
    const struct tw_ops *ops;
    struct tw_layer_obs *obs; /* [layers] */
    int64_t layer;            /* the wanted one */
    int64_t batch_rows, d_model;
    float *x; /* [batch_rows][d_model] */
};

static enum tw_status tapped_ffn(void *ctx, void *y, const void *x,
                                 const void *residual, struct tw_ffn *ffn,
                                 const struct tw_probes *probes,
                                 struct tw_layer_obs *obs, struct tw_error *err)
{
    const struct tap *tap = (const struct tap *)probes;
    enum tw_status status = TW_OK;
    if (obs == &tap->obs[tap->layer])
        status = tap->ops->download(ctx, tap->x, x,
                                    tap->batch_rows * tap->d_model, err);
    if (status == TW_OK)
        status = tap->ops->ffn(ctx, y, x, residual, ffn, probes, obs, err);
    return status;
}

static enum tw_status no_memory(struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_NOMEM, "out of memory for recorded rows");
}

static enum tw_status check_layer(struct tw_job *job, int64_t *layer,
                                  struct tw_error *err)
{
    const struct tw_model *model = job->model;
    if (*layer < 0)
        *layer = model->layers / 2;
    if (*layer >= model->layers)
        return tw_error_set(err, TW_ERR_USAGE,
                            "--layer %lld: the model has layers 0 to %lld",
                            (long long)*layer, (long long)model->layers - 1);
    if (!tw_activation_is_sparse(model->activation.act))
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "%s: activation '%s' leaves no zeros to skip",
                            job->o->model, model->activation.name);
    return TW_OK;
}

/* One batch's rows, behind those that data has. */
static enum tw_status
record_batch(struct tw_job *job, const struct tw_batch *batch, struct tap *tap,
             int64_t most, struct tw_bench_data *data, struct tw_error *err)
{
    const struct tw_model *model = job->model;
    int64_t d = model->d_model;
    enum tw_status status = TW_OK;
    for (int64_t l = 0; l < model->layers && status == TW_OK; l++) {
        tw_layer_obs_fini(&tap->obs[l]);
        status = tw_layer_obs_init(&tap->obs[l], batch->rows, model->d_ff, 1, 1,
                                   0, err);
    }
    tw_free(tap->x);
    tap->x = tw_alloc((size_t)(batch->rows * d), sizeof *tap->x);
    tap->batch_rows = batch->rows;
    if (status == TW_OK && !tap->x)
        status = no_memory(err);
    if (status == TW_OK)
        status = tw_runner_batch(job->runner, batch, &tap->probes, tap->obs,
                                 NULL, NULL, err);
    if (status != TW_OK)
        return status;
    int64_t left = most - data->rows;
    int64_t rows = batch->rows < left ? batch->rows : left;
    memcpy(data->x + data->rows * d, tap->x,
           (size_t)(rows * d) * sizeof *tap->x);
    data->rows += rows;
    return TW_OK;
}

static enum tw_status record_all(struct tw_job *job, struct tap *tap,
                                 int64_t most, struct tw_bench_data *data,
                                 struct tw_error *err)
{
    enum tw_status status = tw_batches_create(&job->corpus.documents,
                                              &job->text, &job->batches, err);
    while (status == TW_OK && data->rows < most) {
        struct tw_batch batch;
        status = tw_batches_next(job->batches, &batch, err);
        if (status != TW_OK || batch.rows == 0)
            break;
        status = record_batch(job, &batch, tap, most, data, err);
    }
    if (status == TW_OK && data->rows == 0)
        return tw_error_set(err, TW_ERR_USAGE, "the text has no tokens");
    return status;
}

static enum tw_status record(struct tw_job *job,
                             const struct tw_bench_source *source,
                             struct tw_bench_data *data, struct tw_error *err)
{
    struct tap tap = {.probes = {1, job->rules.active}, .ops = job->ops};
    struct tw_ops tapped = *job->ops;
    tapped.ffn = tapped_ffn;
    data->layer = source->layer;
    enum tw_status status = check_layer(job, &data->layer, err);
    if (status != TW_OK)
        return status;
    const struct tw_runner_config config = {.ops = {.threads = source->threads},
                                            .max_rows = job->o->batch_tokens};
    int64_t layers = job->model->layers;
    tap.layer = data->layer;
    tap.d_model = job->model->d_model;
    data->x =
        tw_alloc_aligned((size_t)(source->rows * tap.d_model), sizeof *data->x);
    tap.obs = tw_calloc((size_t)layers, sizeof *tap.obs);
    status = data->x && tap.obs ? TW_OK : no_memory(err);
    if (status == TW_OK)
        status =
            tw_runner_create(job->model, &tapped, &config, &job->runner, err);
    if (status == TW_OK)
        status = record_all(job, &tap, source->rows, data, err);
    tw_runner_destroy(job->runner); /* before `tapped` goes */
    job->runner = NULL;
    for (int64_t l = 0; tap.obs && l < layers; l++)
        tw_layer_obs_fini(&tap.obs[l]);
    tw_free(tap.obs);
    tw_free(tap.x);
    data->desc = job->model->layer[data->layer].ffn;
    return status;
}

/* What tw_job_open needs to know, as profile would be asked. */
static struct tw_profile_options options_of(const struct tw_bench_source *s)
{
    struct tw_profile_options o = tw_profile_defaults;
    o.db = NULL;
    o.model = s->model;
    o.files = s->files;
    o.n_files = s->n_files;
    o.prompt = s->prompt;
    o.ctx = s->ctx;
    o.threads = s->threads;
    o.backend = "cpu";
    o.no_loss = true;
    o.limit = s->rows;
    return o;
}

enum tw_status tw_bench_data_record(const struct tw_bench_source *source,
                                    struct tw_bench_data *data, char *name,
                                    size_t name_size, struct tw_error *err)
{
    const struct tw_profile_options options = options_of(source);
    *data = (struct tw_bench_data){.layer = -1};
    data->job = tw_calloc(1, sizeof *data->job);
    if (!data->job)
        return no_memory(err);
    data->job->o = &options;
    enum tw_status status = tw_job_open(data->job, err);
    if (status == TW_OK)
        status = record(data->job, source, data, err);
    if (status == TW_OK)
        snprintf(name, name_size, "%s layer %lld",
                 data->job->model->checkpoint.name, (long long)data->layer);
    data->job->o = NULL;
    if (status != TW_OK)
        tw_bench_data_fini(data);
    return status;
}
