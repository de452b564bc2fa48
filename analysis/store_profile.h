/* A profile and its rows in the database: checkpoint, resume, end of a run.
 *
 *     tw_store_begin(store, &err);                    // every 10 s or so
 *     tw_profile_save(profile, store, run, &err);
 *     tw_store_commit(store, &err);
 *     ...                                             // killed; later:
 *     tw_profile_create(&config, &profile, &err);
 *     tw_profile_restore(profile, store, run, &err);  // goes on as if unbroken
 *     ...
 *     tw_profile_finish(profile, store, run, &err);   // in a transaction
 *
 * The rows hold the whole state: restoring and going on ends with the same
 * rows as never having stopped. Rows that count nothing are not written, but
 * for layer_, route_ and neuron_ (dead neurons are a result). */
#ifndef TW_ANALYSIS_STORE_PROFILE_H
#define TW_ANALYSIS_STORE_PROFILE_H

#include <stdint.h>

#include "analysis/profile.h"
#include "base/error.h"
#include "db/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inside an open transaction: clears the run's counts (parity_ too) and writes
 * them anew, with run_'s tokens (counted rows), skipped, sequences, documents
 * (distinct numbers: with --split stream the caller corrects it), predicted
 * and sum_nll (NULL without loss), overflow_rows (over layers). The run and
 * its definitions are the caller's. neuron_.neuron is the number within the
 * layer, expert * (width / experts) + n. Returns TW_OK or the store's error. */
TW_MUST_USE enum tw_status tw_profile_save(const struct tw_profile *profile,
                                           struct tw_store *store, int64_t run,
                                           struct tw_error *err);

/* The inverse: adds the run's rows to a profile, one fresh from
 * tw_profile_create to go on with the run, or one that holds other parts of the
 * same corpus: the sum is what a single run would hold, whatever the order of
 * the parts. The caller has made sure that model and options agree, and that
 * no part comes twice. Returns
 * TW_OK, TW_ERR_MISMATCH if the rows don't fit the configuration (or no run
 * could have written them), TW_ERR_NOMEM, or the store's error; after an error
 * destroy the profile. */
TW_MUST_USE enum tw_status tw_profile_restore(struct tw_profile *profile,
                                              struct tw_store *store,
                                              int64_t run,
                                              struct tw_error *err);

/* The end of a run, inside an open transaction: a save, and with it all that
 * is derived: layer_'s mean, se, std, quantiles, dead, fired_once, always_on
 * (NULL without a counted row), dead_curve_, first_fired and last_fired on the
 * corpus clock, run_'s mean_nll, se_nll, perplexity. Left to the caller:
 * bytes, bits_per_byte, status, parity_. Returns TW_OK, TW_ERR_NOMEM or the
 * store's error. */
TW_MUST_USE enum tw_status tw_profile_finish(const struct tw_profile *profile,
                                             struct tw_store *store,
                                             int64_t run,
                                             struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
