/* One batch after another through the forward pass. Where the backend has
 * flights, several are on their way at once: what is submitted is collected in
 * the same order. A batch that fails leaves nothing behind: it is ended, the
 * ones before it are waited for, and it is thrown away. */
#include <config.h>

#include "model/runner_internal.h"

#include <assert.h>

static enum tw_status check_tokens(const struct tw_model *model,
                                   const struct tw_batch *batch,
                                   struct tw_error *err)
{
    for (int64_t row = 0; row < batch->rows; row++)
        if (batch->token[row] < 0 || batch->token[row] >= model->vocab)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "token %d is not in the model's vocabulary of "
                                "%lld",
                                batch->token[row], (long long)model->vocab);
    return TW_OK;
}

static enum tw_status check_lengths(const struct tw_model *model,
                                    const struct tw_batch *batch,
                                    struct tw_error *err)
{
    int64_t limit = model->position_limit;
    for (int64_t s = 0; limit > 0 && s < batch->seqs; s++) {
        int64_t length = batch->offset[s + 1] - batch->offset[s];
        if (length > limit)
            return tw_error_set(err, TW_ERR_MISMATCH,
                                "a sequence of %lld tokens is past the model's "
                                "%lld positions: %s",
                                (long long)length, (long long)limit,
                                model->limit_reason);
    }
    return TW_OK;
}

/* The lowest layer in which some h is not finite. */
static enum tw_status check_finite(const struct tw_model *model,
                                   const struct tw_batch *batch,
                                   const struct tw_layer_obs *obs,
                                   struct tw_error *err)
{
    for (int64_t l = 0; obs && l < model->layers; l++) {
        int64_t row = obs[l].bad_row, seq = 0;
        if (row < 0)
            continue;
        while (seq + 1 < batch->seqs && batch->offset[seq + 1] <= row)
            seq++;
        int64_t place = batch->start[seq] + row - batch->offset[seq];
        return tw_error_set(err, TW_ERR_NUMERIC,
                            "layer %lld, token %d (row %lld of document "
                            "%lld), neuron %d: h is not a finite number",
                            (long long)l, batch->token[row], (long long)place,
                            (long long)batch->document[seq], obs[l].bad_neuron);
    }
    return TW_OK;
}

static bool has_flights(const struct tw_runner *r)
{
    return r->ops->flights > 0 && r->ops->submit && r->ops->collect;
}

int tw_runner_flights(const struct tw_runner *r)
{
    if (!has_flights(r))
        return 1;
    return r->ops->flights < TWP_MAX_FLIGHTS ? r->ops->flights
                                             : TWP_MAX_FLIGHTS;
}

/* Marks that tell how long the device had a batch: for one layer at a time
 * where that is asked for, always where it works on its own. */
static bool is_timed(const struct tw_runner *r)
{
    return r->has_marks || (has_flights(r) && r->ops->mark && r->ops->mark_ns);
}

static struct twp_flight *flight_at(struct tw_runner *r, int place)
{
    return &r->flight[(r->oldest + place) % TWP_MAX_FLIGHTS];
}

static int flight_mark(const struct tw_runner *r, const struct twp_flight *f,
                       bool is_end)
{
    return twp_mark_batch((int)(f - r->flight), is_end);
}

/* Waits for the oldest flight that was not waited for; what it gave is told
 * when it is collected. */
static void wait_for(struct tw_runner *r, struct twp_flight *f)
{
    if (f->is_done)
        return;
    f->is_done = true;
    r->last_ns = 0;
    f->status = has_flights(r) ? r->ops->collect(r->ctx, &f->error) : TW_OK;
    if (f->status == TW_OK && f->is_timed)
        f->status =
            r->ops->mark_ns(r->ctx, flight_mark(r, f, false),
                            flight_mark(r, f, true), &r->last_ns, &f->error);
    r->busy_ns += r->last_ns;
}

void twp_runner_wait(struct tw_runner *r)
{
    for (int i = 0; i < r->flights; i++)
        wait_for(r, flight_at(r, i));
}

/* A failed batch is ended like any other, and not collected by the caller. */
static void throw_away(struct tw_runner *r)
{
    struct tw_error own = {0};
    if (has_flights(r) && r->ops->submit(r->ctx, &own) == TW_OK) {
        twp_runner_wait(r);
        own.status = r->ops->collect(r->ctx, &own);
    } else if (!has_flights(r)) {
        own.status = r->ops->finish(r->ctx, &own);
    }
}

/* The pass between the flight's marks. */
static enum tw_status compute(struct tw_runner *r, struct twp_flight *f,
                              const struct tw_probes *probes,
                              struct tw_head_obs *head,
                              const struct tw_logits *logits,
                              struct tw_error *err)
{
    enum tw_status status = TW_OK;
    if (f->is_timed)
        status = r->ops->mark(r->ctx, flight_mark(r, f, false), err);
    if (status == TW_OK)
        status = twp_runner_pass(r, f->batch.rows, probes, f->obs, head, logits,
                                 err);
    if (status == TW_OK && f->is_timed)
        status = r->ops->mark(r->ctx, flight_mark(r, f, true), err);
    return status;
}

enum tw_status
tw_runner_submit(struct tw_runner *r, const struct tw_batch *batch,
                 const struct tw_probes *probes, struct tw_layer_obs *obs,
                 struct tw_head_obs *head, const struct tw_logits *logits,
                 struct tw_error *err)
{
    assert(r->flights < tw_runner_flights(r));
    struct twp_flight *f = flight_at(r, r->flights);
    enum tw_status status = check_tokens(r->model, batch, err);
    if (status == TW_OK)
        status = check_lengths(r->model, batch, err);
    if (status == TW_OK)
        status = twp_runner_grow(r, batch->rows, err);
    *f = (struct twp_flight){
        .batch = *batch, .obs = obs, .is_timed = is_timed(r)};
    if (status == TW_OK)
        status = r->ops->start(r->ctx, &f->batch, err);
    if (status != TW_OK)
        return status;
    status = compute(r, f, probes, head, logits, err);
    if (status != TW_OK) {
        throw_away(r);
        return status;
    }
    status = has_flights(r) ? r->ops->submit(r->ctx, err)
                            : r->ops->finish(r->ctx, err);
    r->flights += status == TW_OK;
    return status;
}

enum tw_status tw_runner_collect(struct tw_runner *r, struct tw_error *err)
{
    assert(r->flights > 0);
    struct twp_flight *f = flight_at(r, 0);
    wait_for(r, f);
    r->oldest = (r->oldest + 1) % TWP_MAX_FLIGHTS;
    r->flights--;
    if (f->status != TW_OK)
        return tw_error_set(err, f->status, "%s", f->error.text);
    return check_finite(r->model, &f->batch, f->obs, err);
}

enum tw_status
tw_runner_batch(struct tw_runner *r, const struct tw_batch *batch,
                const struct tw_probes *probes, struct tw_layer_obs *obs,
                struct tw_head_obs *head, const struct tw_logits *logits,
                struct tw_error *err)
{
    assert(r->flights == 0);
    enum tw_status status =
        tw_runner_submit(r, batch, probes, obs, head, logits, err);
    return status == TW_OK ? tw_runner_collect(r, err) : status;
}

double tw_runner_busy_ns(const struct tw_runner *r)
{
    return r->busy_ns;
}
