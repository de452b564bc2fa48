/* The forms of a model: all layers of one runner, planned one way or another
 * between passes. */
#include <config.h>

#include "run/bench_model_internal.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

static const char *const names[TW_BENCH_MODEL_FORMS] = {
    [TW_BENCH_DENSE] = "dense",
    [TW_BENCH_DENSE_COUNTED] = "dense-counted",
    [TW_BENCH_TWELL_UNCOUNTED] = "twell-uncounted",
    [TW_BENCH_TWELL_NO_LOSS] = "twell-no-loss",
    [TW_BENCH_TWELL] = "twell",
    [TW_BENCH_AUTO] = "auto",
};

static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                        .name = "hidden"};
static const struct tw_active gate = {.kind = TW_ACTIVE_GATE, .name = "gate"};

const char *tw_bench_model_name(enum tw_bench_model_form form)
{
    return names[form];
}

bool twp_is_counted(enum tw_bench_model_form form)
{
    return form != TW_BENCH_DENSE && form != TW_BENCH_TWELL_UNCOUNTED;
}

bool twp_has_loss(const struct twp_model_bench *b,
                  enum tw_bench_model_form form)
{
    return b->head.nll && form != TW_BENCH_TWELL_NO_LOSS;
}

static enum tw_status run_batch(struct twp_model_bench *b,
                                const struct tw_active *active, bool is_counted,
                                bool has_loss, struct tw_error *err)
{
    const struct tw_probes probes = {1, active};
    return tw_runner_batch(b->job->runner, &b->input.batch,
                           is_counted ? &probes : NULL,
                           is_counted ? b->obs : NULL,
                           has_loss ? &b->head : NULL, NULL, err);
}

static enum tw_status set_up(struct twp_model_bench *b, int form,
                             struct tw_error *err)
{
    if (b->form == form)
        return TW_OK;
    b->form = -1;
    enum tw_status status =
        tw_runner_plan_use(b->job->runner, b->plans[form], err);
    if (status == TW_OK)
        b->form = form;
    return status;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

enum tw_status twp_model_bench_pass(struct twp_model_bench *b, int form,
                                    int64_t *ns, struct tw_error *err)
{
    enum tw_bench_model_form of = (enum tw_bench_model_form)form;
    enum tw_status status = set_up(b, form, err);
    int64_t begin = now();
    if (status == TW_OK)
        status = run_batch(b, &hidden, twp_is_counted(of), twp_has_loss(b, of),
                           err);
    *ns = now() - begin;
    if (*ns < 1)
        *ns = 1;
    return status;
}

static bool is_sparse(const struct tw_model *model)
{
    return model->layer[0].ffn.path == TW_FFN_TWELL;
}

/* What is asked for, with the baseline that it is compared with. */
static enum tw_status choose_forms(struct twp_model_bench *b,
                                   struct tw_error *err)
{
    const struct tw_model *model = b->job->model;
    const struct tw_bench_ops *bench = b->job->ops->bench;
    const char *ffn = b->o->ffn;
    bool can_skip = bench && bench->has_uncounted;
    b->to->is_sparse = is_sparse(model);
    if (ffn && strcmp(ffn, "dense") != 0 && !b->to->is_sparse)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "--ffn %s: activation '%s' leaves no zeros to skip",
                            ffn, model->activation.name);
    bool has_plans = b->job->ops->plan && b->job->ops->plan_use;
    if (!has_plans)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend '%s' cannot do plan", b->job->ops->name);
    b->is_there[TW_BENCH_DENSE] = can_skip;
    b->is_there[TW_BENCH_DENSE_COUNTED] =
        !can_skip || !ffn || strcmp(ffn, "dense") == 0;
    b->is_there[TW_BENCH_TWELL] =
        b->to->is_sparse && (!ffn || strcmp(ffn, "twell") == 0);
    b->is_there[TW_BENCH_TWELL_UNCOUNTED] =
        can_skip && b->is_there[TW_BENCH_TWELL];
    b->is_there[TW_BENCH_TWELL_NO_LOSS] =
        b->head.nll && b->is_there[TW_BENCH_TWELL];
    b->is_there[TW_BENCH_AUTO] =
        b->to->is_sparse && (!ffn || strcmp(ffn, "auto") == 0);
    b->baseline = can_skip ? TW_BENCH_DENSE : TW_BENCH_DENSE_COUNTED;
    return TW_OK;
}

static enum tw_status make_plans(struct twp_model_bench *b,
                                 struct tw_error *err)
{
    const struct tw_model *model = b->job->model;
    for (int f = 0; f < TW_BENCH_MODEL_FORMS; f++) {
        bool is_dense = f <= TW_BENCH_DENSE_COUNTED || !b->to->is_sparse;
        b->plans[f] = tw_calloc((size_t)model->layers, sizeof *b->plans[f]);
        if (!b->plans[f])
            return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
        for (int64_t l = 0; l < model->layers; l++)
            b->plans[f][l] = (struct tw_ffn_plan){
                .path = is_dense ? TW_FFN_DENSE : TW_FFN_TWELL,
                .row_limit = TW_NO_ROW_LIMIT};
    }
    return TW_OK;
}

/* From the batch's first rows, which ran sparse and counted their pattern. */
static enum tw_status plan_auto(struct twp_model_bench *b, struct tw_error *err)
{
    int64_t rows = b->input.batch.rows;
    int64_t seen_rows = rows < TW_PLAN_ROWS ? rows : TW_PLAN_ROWS;
    enum tw_status status = set_up(b, TW_BENCH_TWELL, err);
    if (status == TW_OK)
        status = run_batch(b, &gate, true, false, err);
    for (int64_t l = 0; l < b->job->model->layers && status == TW_OK; l++) {
        int64_t overflow = (int64_t)b->obs[l].overflow_rows;
        const struct tw_ffn_seen seen = {.rows = seen_rows,
                                         .overflow_rows =
                                             overflow * seen_rows / rows,
                                         .nnz = b->obs[l].nnz};
        status = tw_runner_plan(b->job->runner, l, &seen,
                                &b->plans[TW_BENCH_AUTO][l], err);
    }
    return status;
}

static enum tw_status count_input(struct twp_model_bench *b,
                                  struct tw_error *err)
{
    struct tw_bench_model *to = b->to;
    int64_t rows = b->input.batch.rows, layers = b->job->model->layers;
    to->mean_nnz = tw_calloc((size_t)layers, sizeof *to->mean_nnz);
    if (!to->mean_nnz)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    enum tw_status status =
        set_up(b, to->is_sparse ? TW_BENCH_TWELL : TW_BENCH_DENSE_COUNTED, err);
    if (status == TW_OK)
        status = run_batch(b, &hidden, true, false, err);
    for (int64_t l = 0; l < layers && status == TW_OK; l++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < rows; i++) {
            sum += b->obs[l].nnz[i];
            if (b->obs[l].nnz[i] > to->nnz_max)
                to->nnz_max = b->obs[l].nnz[i];
        }
        to->mean_nnz[l] = (double)sum / (double)rows;
        to->nnz_mean += to->mean_nnz[l] / (double)layers;
    }
    return status;
}

enum tw_status twp_model_bench_plan(struct twp_model_bench *b,
                                    struct tw_error *err)
{
    enum tw_status status = choose_forms(b, err);
    b->form = -1;
    if (status == TW_OK)
        status = make_plans(b, err);
    if (status == TW_OK && b->is_there[TW_BENCH_AUTO])
        status = plan_auto(b, err);
    if (status == TW_OK)
        status = count_input(b, err);
    return status;
}
