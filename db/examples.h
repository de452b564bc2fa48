/* The K strongest contexts of every neuron (profile --examples K): firings of
 * the primary definition in counted rows, largest |value| first, of equals the
 * earlier place in the corpus. What is kept is a set of places, so any order,
 * batch, part or resume point gives the same.
 *
 *     tw_examples_create(layers, width, 10, pool, &examples, &err);
 *     tw_examples_add(examples, &batch, obs, &err);
 *     tw_examples_save(examples, store, run, &err);  // in each checkpoint
 *     tw_examples_destroy(examples);
 */
#ifndef TW_DB_EXAMPLES_H
#define TW_DB_EXAMPLES_H

#include <stdint.h>

#include "base/batch.h"
#include "base/error.h"
#include "base/obs.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_MAX_EXAMPLES 1000

struct tw_threads;
struct tw_examples;

/* width: neurons a layer, of all experts; 1 <= k <= TW_MAX_EXAMPLES; layers
 * are spread over pool (NULL: none). TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_examples_create(int64_t layers, int64_t width,
                                              int k, struct tw_threads *pool,
                                              struct tw_examples **examples,
                                              struct tw_error *err);
/* NULL is allowed. */
void tw_examples_destroy(struct tw_examples *examples);

/* obs[layers] with active sets. TW_OK, TW_ERR_MISMATCH (without sets). */
TW_MUST_USE enum tw_status tw_examples_add(struct tw_examples *examples,
                                           const struct tw_batch *batch,
                                           const struct tw_layer_obs *obs,
                                           struct tw_error *err);
/* Inside an open transaction; the run's earlier ones have been cleared
 * (tw_store_run_clear). TW_ERR_UNSUPPORTED for a document or row beyond 32
 * bits, TW_ERR_NOMEM, or the store's error. */
TW_MUST_USE enum tw_status tw_examples_save(const struct tw_examples *examples,
                                            struct tw_store *store, int64_t run,
                                            struct tw_error *err);
/* Adds a stored run's: to go on with it, or one part after another. Returns
 * TW_OK, TW_ERR_FORMAT for a damaged BLOB, or the store's error. */
TW_MUST_USE enum tw_status tw_examples_restore(struct tw_examples *examples,
                                               struct tw_store *store,
                                               int64_t run,
                                               struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
