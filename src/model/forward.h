/* The forward pass of a model over a backend's operations.
 *
 *     struct tw_runner *runner;
 *     tw_runner_create(model, ops, &config, &runner, &err);
 *     tw_runner_batch(runner, batch, &probes, obs, &head, NULL, &err);
 *     tw_runner_destroy(runner);                // before tw_model_close
 */
#ifndef TW_MODEL_FORWARD_H
#define TW_MODEL_FORWARD_H

#include "base/batch.h"
#include "base/obs.h"
#include "kernels/ops.h"
#include "model/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_runner;

struct tw_runner_config {
    struct tw_ops_config ops; /* threads, device, keep_bytes */
    int64_t max_rows;         /* of a batch; larger ones make buffers grow.
                               * No error where there is no memory for so
                               * many: the first batch tries again */
};

/* Rows whose logits are wanted. */
struct tw_logits {
    int64_t rows;
    const int64_t *row; /* [rows] of the batch */
    float *logits;      /* [rows][V], filled */
};

/* Starts the backend and loads every weight into it. The model outlives the
 * runner. Returns TW_OK; TW_ERR_UNSUPPORTED "backend 'x' cannot do SLOT"; or
 * the backend's error. */
TW_MUST_USE enum tw_status
tw_runner_create(const struct tw_model *model, const struct tw_ops *ops,
                 const struct tw_runner_config *config,
                 struct tw_runner **runner, struct tw_error *err);
/* NULL is allowed. */
void tw_runner_destroy(struct tw_runner *runner);
/* The backend's own, for what kernels/bench.h names. */
void *tw_runner_context(const struct tw_runner *runner);

/* Batches that may be in flight, submitted and not yet collected: 1 where the
 * backend computes within submit. */
int tw_runner_flights(const struct tw_runner *runner);
/* Runs one batch, which is done when it is collected: in the order submitted.
 * The batch's arrays, obs, head and the logits stay untouched until then; the
 * structs batch, probes and logits need not stay. obs[L], each made for
 * batch->rows or more and for as many probes as given; they are reset here. obs
 * NULL: nothing is counted, with a backend that can (kernels/bench.h,
 * has_uncounted). head NULL or head->nll NULL, and logits NULL or without rows:
 * the head is not computed. Returns TW_OK;
 * TW_ERR_MISMATCH for a token that is not in the vocabulary or a sequence that
 * is longer than model->position_limit; TW_ERR_NUMERIC
 * naming layer, token and neuron where h is NaN or Inf (from collect: obs are
 * then filled, but not to be trusted); or the backend's error. A batch that was
 * not submitted is not in flight, and after TW_ERR_NOMEM a smaller one may be
 * tried; one whose collection failed is in flight no more. */
TW_MUST_USE enum tw_status
tw_runner_submit(struct tw_runner *runner, const struct tw_batch *batch,
                 const struct tw_probes *probes, struct tw_layer_obs *obs,
                 struct tw_head_obs *head, const struct tw_logits *logits,
                 struct tw_error *err);
TW_MUST_USE enum tw_status tw_runner_collect(struct tw_runner *runner,
                                             struct tw_error *err);
/* submit and collect, with nothing in flight. */
TW_MUST_USE enum tw_status
tw_runner_batch(struct tw_runner *runner, const struct tw_batch *batch,
                const struct tw_probes *probes, struct tw_layer_obs *obs,
                struct tw_head_obs *head, const struct tw_logits *logits,
                struct tw_error *err);

/* Gives back what was made for larger batches than `rows`; with nothing in
 * flight. Buffers are made again by the next batch. */
void tw_runner_shrink(struct tw_runner *runner, int64_t rows);

/* Plans a layer from what it did to some rows (ops.h), and uses plans [L] from
 * the next batch on. TW_ERR_UNSUPPORTED where the backend has no plans. */
TW_MUST_USE enum tw_status tw_runner_plan(struct tw_runner *runner,
                                          int64_t layer,
                                          const struct tw_ffn_seen *seen,
                                          struct tw_ffn_plan *plan,
                                          struct tw_error *err);
TW_MUST_USE enum tw_status tw_runner_plan_use(struct tw_runner *runner,
                                              const struct tw_ffn_plan *plans,
                                              struct tw_error *err);

/* Times of a layer in a batch, on the backend's own clock: of its operation
 * ffn, which counts, and of all that lies between the layer's input and its
 * output, ffn included. */
struct tw_layer_ns {
    double ffn, layer;
};
/* From the next batch on marks are put around each layer (off at first). A
 * result never changes by it. TW_ERR_UNSUPPORTED where the backend has none. */
TW_MUST_USE enum tw_status tw_runner_timing(struct tw_runner *runner,
                                            bool is_on, struct tw_error *err);
/* Times [L] of the last batch, with nothing in flight; *total_ns, unless NULL:
 * from before the embedding to after the head. */
TW_MUST_USE enum tw_status tw_runner_times(struct tw_runner *runner,
                                           struct tw_layer_ns *times,
                                           double *total_ns,
                                           struct tw_error *err);
/* The sum of such totals over the batches collected so far. Where timing is off
 * only of a backend that has both marks and flights; else 0. */
double tw_runner_busy_ns(const struct tw_runner *runner);

/* "OpenBLAS SkylakeX, ...": the backend's, valid while the runner lives. */
const char *tw_runner_device(const struct tw_runner *runner);
/* Where the layers' weights are, if not all of them fit the device: "12 of 28
 * layers resident, ...", valid likewise; else NULL. */
const char *tw_runner_weights(const struct tw_runner *runner);

#ifdef __cplusplus
}
#endif
#endif
