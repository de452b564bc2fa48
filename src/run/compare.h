/* --compare: an oracle's ids and answers, and the parity of a run with them.
 * Form: a safetensors file with input_ids [S, T] i32 and any of nll [S, T-1]
 * f32 (nats), logits_last [S, V] f32, nnz [L, S*T] i32 (h != 0), l1 [L, S*T]
 * f32, fire [L, F] i32; row = sequence * T + position. */
#ifndef TW_RUN_COMPARE_H
#define TW_RUN_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/error.h"
#include "base/obs.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_oracle;

TW_MUST_USE enum tw_status tw_oracle_open(const char *path,
                                          struct tw_oracle **oracle,
                                          struct tw_error *err);
void tw_oracle_close(struct tw_oracle *oracle);

bool tw_oracle_has_loss(const struct tw_oracle *oracle);
/* input_ids, borrowed. */
const int32_t *tw_oracle_ids(const struct tw_oracle *oracle, int64_t *rows,
                             int64_t *cols);

/* Checks the oracle's shapes against the model's and makes room. */
TW_MUST_USE enum tw_status tw_oracle_prepare(struct tw_oracle *oracle,
                                             int64_t layers, int64_t width,
                                             int64_t vocab,
                                             struct tw_error *err);
/* Does it say the logits of each sequence's last row? */
bool tw_oracle_has_logits(const struct tw_oracle *oracle);
/* Keeps what one batch saw (definition 0; head NULL without loss; logits
 * [seqs][vocab] of the sequences' last rows, NULL where it has none). */
void tw_oracle_add(struct tw_oracle *oracle, const struct tw_batch *batch,
                   const struct tw_layer_obs *obs,
                   const struct tw_head_obs *head, const float *logits);

/* Inside a transaction: compares all and puts the run's parity rows.
 * *is_within: inside DESIGN's bounds for the cpu backend, tolerance (negative:
 * 1e-4 on the loss, 1e-3 on the logits) replacing those two. `line` gets a
 * sentence. */
TW_MUST_USE enum tw_status
tw_oracle_compare(struct tw_oracle *oracle, struct tw_store *store, int64_t run,
                  double tolerance, bool *is_within, char *line,
                  size_t line_bytes, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
