/* The energy of a model's forms: some windows of a second of each, in turn. */
#include <config.h>

#include "run/bench_model_internal.h"

#include <stdlib.h>

#define WINDOWS 3

static enum tw_status run_form(void *arg, int64_t times, struct tw_error *err)
{
    struct twp_model_bench *b = arg;
    enum tw_status status = TW_OK;
    int64_t ns;
    int form = b->form;
    for (int64_t i = 0; i < times && status == TW_OK; i++)
        status = twp_model_bench_pass(b, form, &ns, err);
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Windows of the forms in turn, so that a warming chip meets all alike. */
static enum tw_status measure(struct twp_model_bench *b, struct tw_error *err)
{
    double mj[TW_BENCH_MODEL_FORMS][WINDOWS];
    double tokens = (double)b->input.batch.rows;
    enum tw_status status = TW_OK;
    for (int w = 0; w < WINDOWS; w++)
        for (int i = 0; i < b->to->n_rows && status == TW_OK; i++) {
            const struct tw_bench_model_row *row = &b->to->row[i];
            int64_t ns;
            status = twp_model_bench_pass(b, (int)row->form, &ns, err);
            if (status == TW_OK)
                status = twp_energy_measure(b->energy, row->pass.median,
                                            run_form, b, &mj[i][w], err);
        }
    for (int i = 0; i < b->to->n_rows && status == TW_OK; i++) {
        qsort(mj[i], WINDOWS, sizeof *mj[i], by_size);
        b->to->row[i].mj_per_token = mj[i][WINDOWS / 2] / tokens;
        b->to->row[i].mj_spread = (mj[i][WINDOWS - 1] - mj[i][0]) / tokens;
    }
    return status;
}

enum tw_status twp_model_bench_energy(struct twp_model_bench *b,
                                      struct tw_error *err)
{
    if (!b->o->has_energy)
        return TW_OK;
    enum tw_status status =
        twp_energy_open(b->job->ops, tw_runner_context(b->job->runner),
                        &b->energy, &b->to->idle_watt, b->to->energy_cause,
                        sizeof b->to->energy_cause, err);
    return status == TW_OK && b->energy ? measure(b, err) : status;
}
