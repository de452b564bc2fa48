/* A whole model, sparse against dense. */
#include <config.h>

#include "run/bench_model.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/memory.h"
#include "run/bench_model_internal.h"

static void describe(struct twp_model_bench *b)
{
    struct tw_bench_model *to = b->to;
    const struct tw_model *m = b->job->model;
    const struct tw_ops *ops = b->job->ops;
    snprintf(to->name, sizeof to->name, "%s", m->checkpoint.name);
    snprintf(to->model_type, sizeof to->model_type, "%s", m->model_type);
    snprintf(to->hash, sizeof to->hash, "%s", m->hash);
    snprintf(to->activation, sizeof to->activation, "%s", m->activation.name);
    snprintf(to->activation_source, sizeof to->activation_source, "%s",
             m->activation_source);
    snprintf(to->weight_dtype, sizeof to->weight_dtype, "%s", m->dtype);
    snprintf(to->device_name, sizeof to->device_name, "%s",
             tw_runner_device(b->job->runner));
    to->backend = ops->name;
    to->compute_dtype = tw_ops_compute_dtype(ops, b->job->dtype);
    to->path = ops->bench ? ops->bench->path(tw_runner_context(b->job->runner))
                          : ops->name;
    to->layers = m->layers;
    to->d_model = m->d_model;
    to->d_ff = m->d_ff;
    to->is_gated = m->is_gated;
    to->tokens = b->input.batch.rows;
    to->sequences = b->input.batch.seqs;
    to->idle_watt = NAN;
}

static void find_peak(struct twp_model_bench *b)
{
    const struct tw_bench_ops *bench = b->job->ops->bench;
    struct rusage usage;
    b->to->is_device_peak = bench && bench->device_bytes;
    if (b->to->is_device_peak) {
        b->to->peak_bytes =
            bench->device_bytes(tw_runner_context(b->job->runner));
        return;
    }
    getrusage(RUSAGE_SELF, &usage);
    b->to->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
}

static void fini(struct twp_model_bench *b)
{
    tw_energy_close(b->energy);
    for (int f = 0; f < TW_BENCH_MODEL_FORMS; f++) {
        tw_free(b->plans[f]);
        tw_free(b->ns[f]);
        tw_free(b->layer_ns[f]);
    }
    for (int64_t l = 0; b->obs && l < b->job->model->layers; l++)
        tw_layer_obs_fini(&b->obs[l]);
    tw_free(b->obs);
    tw_free(b->head.nll);
    tw_free(b->times);
    tw_free(b->ratio);
    twp_batch_copy_fini(&b->input);
    if (b->job)
        tw_job_close(b->job);
    tw_free(b->job);
}

enum tw_status tw_bench_model(const struct tw_bench_model_options *options,
                              struct tw_bench_model *bench,
                              struct tw_error *err)
{
    *bench = (struct tw_bench_model){.nnz_mean = 0};
    struct twp_model_bench b = {.o = options, .to = bench};
    enum tw_status status = twp_model_bench_open(&b, err);
    if (status == TW_OK) {
        describe(&b);
        status = twp_model_bench_plan(&b, err);
    }
    if (status == TW_OK)
        status = twp_model_bench_time(&b, err);
    if (status == TW_OK)
        status = twp_model_bench_energy(&b, err);
    if (status == TW_OK)
        find_peak(&b);
    fini(&b);
    return status;
}

void tw_bench_model_fini(struct tw_bench_model *bench)
{
    tw_free(bench->mean_nnz);
    for (int i = 0; i < TW_BENCH_MODEL_FORMS; i++)
        tw_free(bench->row[i].layer);
    *bench = (struct tw_bench_model){.n_rows = 0};
}
