/* Batches on their way through a runner: as many at once as its backend can
 * have, given back one by one in the corpus's order, so that what is done with
 * one overlaps the device's work on the next.
 *
 *     tw_flights_create(&config, &flights, &err);
 *     while (tw_flights_next(flights, &flight, &err) == TW_OK && flight)
 *         ... flight->text.batch, flight->obs ...
 *     tw_flights_destroy(flights);          // before the runner
 *
 * Where there is no memory for a batch, nothing of it has been given: batches
 * get half as long, which is said, and it is run again in parts. */
#ifndef TW_RUN_FLIGHTS_H
#define TW_RUN_FLIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/obs.h"
#include "model/forward.h"
#include "run/batch_copy.h"
#include "text/batches.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One batch and what the model saw in it. */
struct tw_flight {
    struct twp_batch_copy text;
    struct tw_layer_obs *obs; /* [layers] */
    struct tw_head_obs head;  /* nll NULL without has_loss */
    struct tw_logits logits;  /* of each sequence's last row, or of none */
    /* flights.c's own */
    int64_t rows, seqs; /* that obs and logits have room for */
    int64_t *logit_row;
    enum tw_status status;
    struct tw_error error;
};

struct tw_flights_config {
    struct tw_runner *runner;
    struct tw_batches *batches; /* of batch_tokens */
    int64_t batch_tokens;
    /* The next of them, as tw_batches_next gives it. */
    enum tw_status (*read)(void *arg, struct tw_batch *batch,
                           struct tw_error *err);
    void *arg;
    int64_t layers, width, vocab;
    struct tw_probes probes; /* its array is borrowed */
    bool has_loss, has_magnitudes, has_sets, has_logits;
};

/* Seconds so far. Compute is what the caller waited for: all of the work, or
 * where the backend works on its own what is left of it. Device is its time on
 * the backend's clock, 0 where that is not known, of span: from the first
 * batch's start to the end of the last one collected. */
struct tw_flights_times {
    double text, compute, device, span;
};

struct tw_flights;

/* Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status
tw_flights_create(const struct tw_flights_config *config,
                  struct tw_flights **flights, struct tw_error *err);
/* Waits for what is in flight. NULL is allowed. */
void tw_flights_destroy(struct tw_flights *flights);

/* The next batch, borrowed until the next call; NULL at the end. Errors come
 * where their batch would have, those of `read` too, and are final. Returns
 * TW_OK; what read and tw_runner_submit give; TW_ERR_NOMEM naming the rows
 * where a batch can't be shorter. */
TW_MUST_USE enum tw_status tw_flights_next(struct tw_flights *flights,
                                           struct tw_flight **flight,
                                           struct tw_error *err);

/* Tokens of a batch by now. */
int64_t tw_flights_batch_tokens(const struct tw_flights *flights);
void tw_flights_times(const struct tw_flights *flights,
                      struct tw_flights_times *times);

#ifdef __cplusplus
}
#endif
#endif
