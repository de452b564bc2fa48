/* The profile of a run: exact integer sums over every batch seen.
 *
 *     struct tw_profile_config config = {.layers = 28, .width = 8192,
 *         .experts = 1, .probes = 2, .vocab = 49152, .ctx = 2048,
 *         .with_loss = true, .pool = pool};
 *     tw_profile_create(&config, &profile, &err);
 *     while (next batch)
 *         tw_profile_add(profile, &batch, obs, &head, &err);
 *     tw_profile_finish(profile, store, run, &err);   // see store_profile.h
 *     tw_profile_destroy(profile);
 *
 * The one rule: no float is ever summed across tokens. l1 is rounded per row
 * to 2^-16, loss to 2^-20, and 64-bit integers are summed, so the state is the
 * same bits for any cut into batches, any order of them, any threads. A sum
 * that exceeds 64 bits is TW_ERR_OVERFLOW, never a wrong number.
 *
 * Which rows count. Rows with TW_ROW_SKIPPED are left out of everything but
 * three: the class sums (kept per class and skipped), the loss (mean_nll is
 * over every row that has one, so --skip never changes it) and the documents'
 * lengths, which make the corpus clock. */
#ifndef TW_ANALYSIS_PROFILE_H
#define TW_ANALYSIS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/batch.h"
#include "base/error.h"
#include "base/obs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_threads;
struct tw_profile; /* opaque */

struct tw_profile_config {
    int layers, probes;      /* probes: definitions of "active"; 0 is primary */
    int64_t width;           /* d_ff, all experts together */
    int experts;             /* 1 in a dense model; divides width */
    int64_t vocab;           /* token ids are 0 .. vocab-1 */
    int64_t ctx;             /* rows a window: window = start / ctx */
    bool with_loss;          /* the head's nll is summed */
    bool with_magnitudes;    /* obs carry abs_sum, abs_max, magnitude */
    struct tw_threads *pool; /* layers are spread over it; NULL: none. Must
                              * outlive the profile, may be shared */
};

/* An empty profile. Memory is reserved for layers x probes x vocab tokens, but
 * only pages of tokens that occur are touched. Returns TW_OK or TW_ERR_NOMEM;
 * end with tw_profile_destroy. */
TW_MUST_USE enum tw_status
tw_profile_create(const struct tw_profile_config *config,
                  struct tw_profile **profile, struct tw_error *err);
/* NULL is allowed. */
void tw_profile_destroy(struct tw_profile *profile);

/* The same counts, as they are now, in *copy: a new profile where it is NULL,
 * else one that an earlier call made of `from`. Returns TW_OK, or TW_ERR_NOMEM
 * with *copy still to be destroyed, if it isn't NULL. */
TW_MUST_USE enum tw_status tw_profile_copy(const struct tw_profile *from,
                                           struct tw_profile **copy,
                                           struct tw_error *err);

/* Adds one batch: obs[layers] of the same rows, width, probes and experts;
 * head only with_loss (else NULL or ignored). Batches may come in any order,
 * each sequence once and whole. Nothing is kept of the arguments.
 *
 * Returns TW_OK, TW_ERR_MISMATCH (obs of another shape), TW_ERR_FORMAT (a
 * token id outside the vocabulary), TW_ERR_NUMERIC (an infinite loss),
 * TW_ERR_OVERFLOW or TW_ERR_NOMEM. After an error the profile may hold a part
 * of the batch: destroy it. */
TW_MUST_USE enum tw_status tw_profile_add(struct tw_profile *profile,
                                          const struct tw_batch *batch,
                                          const struct tw_layer_obs *obs,
                                          const struct tw_head_obs *head,
                                          struct tw_error *err);

/* What the run saw in all. rows = tokens + skipped. */
struct tw_profile_totals {
    int64_t rows, tokens, skipped; /* tokens: counted rows */
    int64_t sequences, documents;  /* documents: distinct numbers */
    int64_t predicted, sum_nll;    /* rows with a loss, skipped or not; 2^-20 */
    int64_t overflow_rows;         /* sum over layers */
    double mean_nll;               /* NaN without a loss */
};
void tw_profile_totals(const struct tw_profile *profile,
                       struct tw_profile_totals *totals);

/* One layer under one definition. */
struct tw_profile_layer {
    int64_t tokens, sum_nnz; /* counted rows */
    int64_t dead;            /* neurons that never fired */
    double mean_nnz;         /* NaN without a token */
};
void tw_profile_layer(const struct tw_profile *profile, int definition,
                      int layer, struct tw_profile_layer *summary);

#ifdef __cplusplus
}
#endif
#endif
