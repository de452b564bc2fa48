/* Batches on their way: a ring of flights. The oldest is collected and given
 * away, and its place filled again at the next call. */
#include <config.h>

#include "run/flights.h"

#include <time.h>

#include "base/log.h"
#include "base/memory.h"

struct tw_flights {
    struct tw_flights_config config;
    struct tw_flight *flight; /* [places] */
    int places, first, count; /* ring: its oldest, how many hold a batch */
    int in_flight;            /* of them with the runner, the oldest ones */
    bool is_stuck;            /* the newest could not be submitted */
    bool is_ended;            /* read has no more, with this: */
    enum tw_status end;
    struct tw_error error;
    struct twp_batch_copy again; /* rows to be run once more */
    int64_t again_seq;           /* its first sequence not yet taken */
    double begin;                /* of the first batch */
    double device_before;
    struct tw_flights_times times;
};

static double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- One flight's memory --- */

static void drop_room(struct tw_flight *flight, int64_t layers)
{
    for (int64_t l = 0; l < layers; l++)
        tw_layer_obs_fini(&flight->obs[l]);
    tw_free(flight->head.nll);
    tw_free(flight->logits.logits);
    tw_free(flight->logit_row);
    flight->head.nll = NULL;
    flight->logits = (struct tw_logits){0};
    flight->logit_row = NULL;
    flight->rows = flight->seqs = 0;
}

static enum tw_status make_obs(const struct tw_flights_config *c,
                               struct tw_flight *flight, int64_t rows,
                               struct tw_error *err)
{
    enum tw_status status = TW_OK;
    for (int64_t l = 0; l < c->layers && status == TW_OK; l++) {
        status = tw_layer_obs_init(&flight->obs[l], rows, c->width,
                                   c->probes.count, 1, c->has_magnitudes, err);
        if (status == TW_OK && c->has_sets)
            status = tw_layer_obs_want_sets(&flight->obs[l], rows, err);
    }
    return status;
}

static enum tw_status make_head(const struct tw_flights_config *c,
                                struct tw_flight *flight, int64_t rows,
                                int64_t seqs, struct tw_error *err)
{
    if (c->has_loss)
        flight->head.nll = tw_alloc((size_t)rows, sizeof *flight->head.nll);
    if (c->has_logits) {
        flight->logit_row = tw_alloc((size_t)seqs, sizeof *flight->logit_row);
        flight->logits.logits = tw_alloc((size_t)seqs * (size_t)c->vocab,
                                         sizeof *flight->logits.logits);
    }
    bool is_short =
        (c->has_loss && !flight->head.nll) ||
        (c->has_logits && (!flight->logit_row || !flight->logits.logits));
    return is_short ? tw_error_set(err, TW_ERR_NOMEM, "out of memory") : TW_OK;
}

/* Room for its batch; a first long sequence makes it grow. */
static enum tw_status make_room(const struct tw_flights_config *c,
                                struct tw_flight *flight, struct tw_error *err)
{
    int64_t rows = flight->text.batch.rows, seqs = flight->text.batch.seqs;
    if (rows <= flight->rows && (!c->has_logits || seqs <= flight->seqs))
        return TW_OK;
    rows = rows > flight->rows ? rows : flight->rows;
    seqs = seqs > flight->seqs ? seqs : flight->seqs;
    drop_room(flight, c->layers);
    enum tw_status status = make_obs(c, flight, rows, err);
    if (status == TW_OK)
        status = make_head(c, flight, rows, seqs, err);
    if (status == TW_OK) {
        flight->rows = rows;
        flight->seqs = seqs;
    }
    return status;
}

static void want_logits(struct tw_flight *flight)
{
    const struct tw_batch *batch = &flight->text.batch;
    for (int64_t s = 0; s < batch->seqs; s++)
        flight->logit_row[s] = batch->offset[s + 1] - 1;
    flight->logits.row = flight->logit_row;
    flight->logits.rows = batch->seqs;
}

/* --- Life --- */

enum tw_status tw_flights_create(const struct tw_flights_config *config,
                                 struct tw_flights **out, struct tw_error *err)
{
    struct tw_flights *f = tw_calloc(1, sizeof *f);
    if (!f)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    f->config = *config;
    f->device_before = tw_runner_busy_ns(config->runner);
    int places = tw_runner_flights(config->runner);
    f->flight = tw_calloc((size_t)places, sizeof *f->flight);
    for (int i = 0; f->flight && i < places; i++) {
        f->flight[i].obs =
            tw_calloc((size_t)config->layers, sizeof *f->flight[i].obs);
        f->places += f->flight[i].obs != NULL;
    }
    if (f->places < places) {
        tw_flights_destroy(f);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    *out = f;
    return TW_OK;
}

/* Waits for the oldest. */
static enum tw_status collect(struct tw_flights *f, struct tw_error *err)
{
    double begin = clock_seconds();
    enum tw_status status = tw_runner_collect(f->config.runner, err);
    double end = clock_seconds();
    f->in_flight--;
    f->times.compute += end - begin;
    f->times.span = end - f->begin;
    f->times.device =
        1e-9 * (tw_runner_busy_ns(f->config.runner) - f->device_before);
    return status;
}

/* What is in flight is for nobody. */
static void drain(struct tw_flights *f)
{
    while (f->in_flight > 0) {
        struct tw_error unwanted = {0};
        enum tw_status status = collect(f, &unwanted);
        (void)status;
    }
}

void tw_flights_destroy(struct tw_flights *f)
{
    if (!f)
        return;
    drain(f);
    for (int i = 0; i < f->places; i++) {
        drop_room(&f->flight[i], f->config.layers);
        twp_batch_copy_fini(&f->flight[i].text);
        tw_free(f->flight[i].obs);
    }
    twp_batch_copy_fini(&f->again);
    tw_free(f->flight);
    tw_free(f);
}

int64_t tw_flights_batch_tokens(const struct tw_flights *f)
{
    return f->config.batch_tokens;
}

void tw_flights_times(const struct tw_flights *f,
                      struct tw_flights_times *times)
{
    *times = f->times;
}

/* --- Taking off --- */

static struct tw_flight *flight_at(struct tw_flights *f, int place)
{
    return &f->flight[(f->first + place) % f->places];
}

/* Sequences of `again` that make a batch: at least one, as many as fit. */
static int64_t count_again(const struct tw_flights *f)
{
    const struct tw_batch *b = &f->again.batch;
    int64_t first = f->again_seq, n = 1;
    while (first + n < b->seqs && b->offset[first + n + 1] - b->offset[first] <=
                                      f->config.batch_tokens)
        n++;
    return n;
}

/* Nothing follows what is in flight. */
static void end(struct tw_flights *f, enum tw_status status,
                const struct tw_error *error)
{
    f->is_ended = true;
    f->end = status;
    f->error = *error;
    twp_batch_copy_clear(&f->again);
    f->again_seq = 0;
}

/* The next batch; no rows where there is none. */
static void take(struct tw_flights *f, struct twp_batch_copy *text)
{
    struct tw_batch batch = {0};
    struct tw_error error = {0};
    enum tw_status status = TW_OK;
    double begin = clock_seconds();
    twp_batch_copy_clear(text);
    if (f->again_seq < f->again.batch.seqs) {
        int64_t n = count_again(f);
        status =
            twp_batch_copy_add(text, &f->again.batch, f->again_seq, n, &error);
        f->again_seq += n;
    } else if (!f->is_ended) {
        status = f->config.read(f->config.arg, &batch, &error);
        f->is_ended = batch.rows == 0;
        if (status == TW_OK && !f->is_ended)
            status = twp_batch_copy_add(text, &batch, 0, batch.seqs, &error);
    }
    if (status != TW_OK)
        end(f, status, &error);
    f->times.text += clock_seconds() - begin;
}

/* One more batch under way; false: there is none. */
static bool launch(struct tw_flights *f)
{
    const struct tw_flights_config *c = &f->config;
    struct tw_flight *flight = flight_at(f, f->count);
    take(f, &flight->text);
    if (flight->text.batch.rows == 0)
        return false;
    double begin = clock_seconds();
    f->begin = f->begin > 0 ? f->begin : begin;
    flight->error = (struct tw_error){0};
    flight->status = make_room(c, flight, &flight->error);
    if (flight->status == TW_OK && c->has_logits)
        want_logits(flight);
    if (flight->status == TW_OK)
        flight->status =
            tw_runner_submit(c->runner, &flight->text.batch, &c->probes,
                             flight->obs, c->has_loss ? &flight->head : NULL,
                             &flight->logits, &flight->error);
    f->times.compute += clock_seconds() - begin;
    f->count++;
    f->is_stuck = flight->status != TW_OK;
    f->in_flight += !f->is_stuck;
    return true;
}

/* --- Shorter batches --- */

/* All that was taken and not given, to be run again. */
static enum tw_status collect_again(struct tw_flights *f, struct tw_error *err)
{
    struct twp_batch_copy all = {0};
    enum tw_status status = TW_OK;
    for (int i = 0; i < f->count && status == TW_OK; i++) {
        const struct tw_batch *batch = &flight_at(f, i)->text.batch;
        status = twp_batch_copy_add(&all, batch, 0, batch->seqs, err);
    }
    int64_t rest = f->again.batch.seqs - f->again_seq;
    if (status == TW_OK && rest > 0)
        status =
            twp_batch_copy_add(&all, &f->again.batch, f->again_seq, rest, err);
    if (status != TW_OK) {
        twp_batch_copy_fini(&all);
        return status;
    }
    twp_batch_copy_fini(&f->again);
    f->again = all;
    f->again_seq = 0;
    return TW_OK;
}

static enum tw_status halve(struct tw_flights *f, struct tw_error *err)
{
    const struct tw_flight *failed = flight_at(f, 0);
    int64_t tokens = f->config.batch_tokens, half = tokens / 2;
    tw_log(TW_LOG_WARNING,
           "no memory for a batch of %lld rows (%s): -b %lld instead of %lld "
           "from here on",
           (long long)failed->text.batch.rows, failed->error.text,
           (long long)half, (long long)tokens);
    drain(f);
    enum tw_status status = collect_again(f, err);
    if (status != TW_OK)
        return status;
    f->first = f->count = 0;
    f->is_stuck = false;
    f->config.batch_tokens = half;
    tw_batches_resize(f->config.batches, half);
    for (int i = 0; i < f->places; i++)
        drop_room(&f->flight[i], f->config.layers);
    tw_runner_shrink(f->config.runner, half);
    return TW_OK;
}

/* A batch of one sequence has the least rows there are, and a limit below them
 * changes nothing. */
static bool can_halve(const struct tw_flights *f, const struct tw_batch *batch)
{
    return batch->seqs > 1 || batch->rows < f->config.batch_tokens;
}

static enum tw_status fail(const struct tw_flights *f,
                           const struct tw_flight *flight, struct tw_error *err)
{
    if (flight->status != TW_ERR_NOMEM)
        return tw_error_set(err, flight->status, "%s", flight->error.text);
    return tw_error_set(err, TW_ERR_NOMEM,
                        "no memory for one sequence of %lld rows, which no -b "
                        "makes shorter (it is %lld): %s",
                        (long long)flight->text.batch.rows,
                        (long long)f->config.batch_tokens, flight->error.text);
}

enum tw_status tw_flights_next(struct tw_flights *f, struct tw_flight **out,
                               struct tw_error *err)
{
    *out = NULL;
    for (;;) {
        while (f->count < f->places && !f->is_stuck && launch(f))
            ;
        if (f->count == 0)
            return f->end == TW_OK
                       ? TW_OK
                       : tw_error_set(err, f->end, "%s", f->error.text);
        struct tw_flight *flight = flight_at(f, 0);
        if (flight->status == TW_OK)
            flight->status = collect(f, &flight->error);
        if (flight->status == TW_OK) {
            f->first = (f->first + 1) % f->places;
            f->count--;
            *out = flight;
            return TW_OK;
        }
        if (flight->status != TW_ERR_NOMEM ||
            !can_halve(f, &flight->text.batch))
            return fail(f, flight, err);
        enum tw_status status = halve(f, err);
        if (status != TW_OK)
            return status;
    }
}
