/* How far a run is from an oracle's answers: pure comparison of arrays; the
 * caller reads the oracle and stores the numbers (db's parity_).
 *
 *     tw_parity_layer(&observed, &expected, rows, width, &layer);
 *     worst = tw_parity_max_difference(nll, expected_nll, rows);
 *
 * Bounds are the caller's. Arrays are read only. */
#ifndef TW_ANALYSIS_PARITY_H
#define TW_ANALYSIS_PARITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One layer's numbers. A NULL array on either side leaves its results at
 * nothing compared: cells 0, reals NaN. */
struct tw_parity_arrays {
    const uint32_t *nnz;  /* [rows] */
    const float *l1;      /* [rows] */
    const uint64_t *fired; /* [width] */
};

struct tw_parity_layer {
    int64_t cells, identical, max_difference; /* of nnz */
    double total_difference; /* |sum a - sum b| / max(1, sum b) of nnz */
    int64_t fired_cells, fired_identical, fired_max_difference;
    double l1_max_relative;  /* max |a - b| / max(|b|, smallest float) */
};

/* a: observed, b: expected. */
void tw_parity_layer(const struct tw_parity_arrays *a,
                     const struct tw_parity_arrays *b, int64_t rows,
                     int64_t width, struct tw_parity_layer *layer);

/* Largest |a - b|; 0 if count is 0. Where both are NaN there is nothing to
 * compare; one NaN alone, or a difference that is none, gives infinity. */
double tw_parity_max_difference(const float *a, const float *b, int64_t count);

/* |mean a - mean b| over the entries that are not NaN; NaN if a side has
 * none. */
double tw_parity_mean_difference(const float *a, const float *b,
                                 int64_t count);

#ifdef __cplusplus
}
#endif
#endif
