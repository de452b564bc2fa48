/* Timing a model's forms: every form once a repetition, in a new order each
 * time; then the same again with marks around the layers, which cost a little.
 */
#include <config.h>

#include "run/bench_model_internal.h"

#include <math.h>

#include "base/memory.h"

#define BUDGET_NS         8000000000LL /* of all forms' repetitions */
#define LEAST_REPETITIONS 5
#define MOST_REPETITIONS  100
#define PAPER_REPETITIONS 50
#define LAYER_REPETITIONS 25 /* at most */

static int list_forms(const struct twp_model_bench *b, int *order)
{
    int n = 0;
    for (int f = 0; f < TW_BENCH_MODEL_FORMS; f++)
        if (b->is_there[f])
            order[n++] = f;
    return n;
}

/* Each form twice untimed; the second pass says how often to repeat. */
static enum tw_status warm_up(struct twp_model_bench *b, struct tw_error *err)
{
    int order[TW_BENCH_MODEL_FORMS], n = list_forms(b, order);
    int64_t all = 0, ns = 0;
    enum tw_status status = TW_OK;
    for (int i = 0; i < n && status == TW_OK; i++) {
        for (int k = 0; k < 2 && status == TW_OK; k++)
            status = twp_model_bench_pass(b, order[i], &ns, err);
        all += ns;
    }
    if (status != TW_OK)
        return status;
    int64_t most = BUDGET_NS / all;
    if (most < LEAST_REPETITIONS)
        most = LEAST_REPETITIONS;
    if (most > MOST_REPETITIONS)
        most = MOST_REPETITIONS;
    if (b->o->is_paper)
        most = PAPER_REPETITIONS;
    if (b->o->repetitions > 0)
        most = b->o->repetitions;
    b->to->repetitions = (int)most;
    b->to->layer_repetitions =
        most < LAYER_REPETITIONS ? (int)most : LAYER_REPETITIONS;
    return TW_OK;
}

static enum tw_status make_room(struct twp_model_bench *b, struct tw_error *err)
{
    size_t layers = (size_t)b->to->layers, n = (size_t)b->to->repetitions;
    size_t cells = layers * (size_t)b->to->layer_repetitions;
    b->ratio = tw_calloc(n, sizeof *b->ratio);
    b->times = tw_calloc(layers, sizeof *b->times);
    bool is_short = !b->ratio || !b->times;
    for (int f = 0; f < TW_BENCH_MODEL_FORMS; f++) {
        b->ns[f] = tw_calloc(n, sizeof *b->ns[f]);
        b->layer_ns[f] = tw_calloc(cells, sizeof *b->layer_ns[f]);
        is_short |= !b->ns[f] || !b->layer_ns[f];
    }
    return is_short ? tw_error_set(err, TW_ERR_NOMEM, "out of memory") : TW_OK;
}

static enum tw_status time_passes(struct twp_model_bench *b,
                                  struct tw_random *random,
                                  struct tw_error *err)
{
    int order[TW_BENCH_MODEL_FORMS], n = list_forms(b, order);
    enum tw_status status = TW_OK;
    for (int r = 0; r < b->to->repetitions; r++) {
        twp_shuffle(order, n, random);
        for (int i = 0; i < n && status == TW_OK; i++)
            status =
                twp_model_bench_pass(b, order[i], &b->ns[order[i]][r], err);
    }
    return status;
}

static enum tw_status time_layers_once(struct twp_model_bench *b, int form,
                                       int at, struct tw_error *err)
{
    int64_t ns, n = b->to->layer_repetitions;
    double total = 0;
    enum tw_status status = twp_model_bench_pass(b, form, &ns, err);
    if (status == TW_OK)
        status = tw_runner_times(b->job->runner, b->times, &total, err);
    if (status != TW_OK)
        return status;
    b->all_ns[form] += total;
    for (int64_t l = 0; l < b->to->layers; l++) {
        b->layer_ns[form][l * n + at] = (int64_t)b->times[l].ffn;
        b->ffn_ns[form] += b->times[l].ffn;
    }
    return TW_OK;
}

static enum tw_status time_layers(struct twp_model_bench *b,
                                  struct tw_random *random,
                                  struct tw_error *err)
{
    int order[TW_BENCH_MODEL_FORMS], n = list_forms(b, order);
    const struct tw_ops *ops = b->job->ops;
    if (!ops->mark || !ops->mark_ns)
        return TW_OK;
    enum tw_status status = tw_runner_timing(b->job->runner, true, err);
    for (int r = 0; r < b->to->layer_repetitions; r++) {
        twp_shuffle(order, n, random);
        for (int i = 0; i < n && status == TW_OK; i++)
            status = time_layers_once(b, order[i], r, err);
    }
    if (status == TW_OK)
        status = tw_runner_timing(b->job->runner, false, err);
    return status;
}

static enum tw_status spread_layers(struct twp_model_bench *b,
                                    struct tw_bench_model_row *row,
                                    struct tw_error *err)
{
    int64_t n = b->to->layer_repetitions;
    if (!(b->all_ns[row->form] > 0))
        return TW_OK;
    row->ffn_share = b->ffn_ns[row->form] / b->all_ns[row->form];
    row->layer = tw_calloc((size_t)b->to->layers, sizeof *row->layer);
    if (!row->layer)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    for (int64_t l = 0; l < b->to->layers; l++)
        twp_spread(b->layer_ns[row->form] + l * n, (int)n,
                   &row->layer[l].median, &row->layer[l].min,
                   &row->layer[l].mad);
    return TW_OK;
}

static void mean_and_std(const int64_t *ns, int n, double *mean, double *std)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++)
        sum += (double)ns[i];
    *mean = sum / n;
    for (int i = 0; i < n; i++)
        squares += ((double)ns[i] - *mean) * ((double)ns[i] - *mean);
    *std = n > 1 ? sqrt(squares / (n - 1)) : NAN;
}

/* The mean of nll, and what the form's plan and counts say, from one pass. */
static enum tw_status look_at(struct twp_model_bench *b,
                              struct tw_bench_model_row *row,
                              struct tw_error *err)
{
    int64_t ns, predicted = 0;
    double sum = 0;
    enum tw_status status = twp_model_bench_pass(b, (int)row->form, &ns, err);
    bool has_loss = twp_has_loss(b, row->form);
    for (int64_t i = 0; has_loss && i < b->input.batch.rows; i++)
        if (!isnan(b->head.nll[i])) {
            sum += b->head.nll[i];
            predicted++;
        }
    row->mean_nll = predicted > 0 ? sum / (double)predicted : NAN;
    for (int64_t l = 0; l < b->to->layers; l++) {
        bool is_dense = b->plans[row->form][l].path == TW_FFN_DENSE;
        row->dense_layers += is_dense;
        if (!is_dense && twp_is_counted(row->form))
            row->routed += (int64_t)b->obs[l].dense_rows;
    }
    return status;
}

static enum tw_status fill_rows(struct twp_model_bench *b, struct tw_error *err)
{
    int order[TW_BENCH_MODEL_FORMS], n = list_forms(b, order);
    int reps = b->to->repetitions;
    enum tw_status status = TW_OK;
    b->to->n_rows = n;
    for (int i = 0; i < n && status == TW_OK; i++) {
        struct tw_bench_model_row *row = &b->to->row[i];
        *row = (struct tw_bench_model_row){
            .form = (enum tw_bench_model_form)order[i],
            .mj_per_token = NAN,
            .mj_spread = NAN,
            .ffn_share = NAN};
        row->speedup = twp_median_ratio(b->ns[b->baseline], b->ns[order[i]],
                                        b->ratio, reps);
        mean_and_std(b->ns[order[i]], reps, &row->mean_ns, &row->std_ns);
        status = look_at(b, row, err);
        if (status == TW_OK)
            status = spread_layers(b, row, err);
    }
    for (int i = 0; i < n; i++) /* sorts the times away */
        twp_spread(b->ns[order[i]], reps, &b->to->row[i].pass.median,
                   &b->to->row[i].pass.min, &b->to->row[i].pass.mad);
    return status;
}

enum tw_status twp_model_bench_time(struct twp_model_bench *b,
                                    struct tw_error *err)
{
    struct tw_random random = {b->o->seed};
    enum tw_status status = warm_up(b, err);
    if (status == TW_OK)
        status = make_room(b, err);
    if (status == TW_OK)
        status = time_passes(b, &random, err);
    if (status == TW_OK)
        status = time_layers(b, &random, err);
    if (status == TW_OK)
        status = fill_rows(b, err);
    return status;
}
