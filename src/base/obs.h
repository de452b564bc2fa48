/* What the model saw in one batch: filled by kernels, read by analysis. With
 * batch.h the seam between compute and statistics. Plain host arrays, owned by
 * the caller; neuron = expert * (width / experts) + n, numbered as in the
 * checkpoint whatever order a backend computes in.
 *
 * No float is ever summed across tokens: analysis rounds the per-row floats
 * and sums 64-bit integers, so that every sum is exact and free of order. */
#ifndef TW_BASE_OBS_H
#define TW_BASE_OBS_H

#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_TILE_WIDTHS    3  /* 64, 128, 256 columns */
#define TW_MAGNITUDE_BINS 64 /* bin b: floor(log2 |h|) = b - 40, ends clamped  \
                              */
#define TW_MAGNITUDE_BIAS 40
#define TW_L1_SCALE       65536.0   /* l1 is summed in units of 2^-16 */
#define TW_NLL_SCALE      1048576.0 /* loss and |h| in units of 2^-20 */

/* What one layer did to one batch. fired, first, last, seen, tiles and the
 * magnitudes leave skipped rows out; nnz and l1 hold every row. */
struct tw_layer_obs {
    int32_t rows, width, probes, experts;
    uint32_t *nnz;          /* [probes][rows] active neurons */
    uint64_t *fired;        /* [probes][width] counted rows in which active */
    uint32_t *first, *last; /* [probes][width] first and last such row,
                             * UINT32_MAX: none */
    uint64_t *seen;         /* [experts] counted rows that reached it */
    float *l1;              /* [rows] sum |h| */
    uint64_t *tiles[TW_TILE_WIDTHS]; /* [w+1] row-tiles by pattern count */
    int64_t *abs_sum;    /* [width] |h| in 2^-20 over the primary's firings;
                          * NULL without --magnitudes, as the next two */
    float *abs_max;      /* [width] largest |h| of the primary's firings */
    uint64_t *magnitude; /* [TW_MAGNITUDE_BINS] every h != 0 */
    int64_t *set_start;  /* [rows+1] CSR of the primary's active neurons, */
    uint32_t *set;       /* with values; NULL unless asked for */
    float *set_value;
    int64_t set_room; /* entries that set and set_value have room for */
    uint64_t overflow_tiles; /* tiles with more entries than slots */
    uint64_t overflow_rows;  /* rows with such a tile */
    uint64_t dense_rows;     /* rows routed to the dense path, any reason */
    int32_t bad_row;         /* first row with a non-finite h, -1: none */
    int32_t bad_neuron;      /* its lowest such neuron */
};

struct tw_head_obs {
    float *nll; /* [rows] -log p(next token), nats; NaN on a sequence's last
                 * row; NULL with --no-loss */
};

/* Allocates every array for up to max_rows rows (set* stay NULL; magnitudes
 * only if asked). Free with tw_layer_obs_fini. Returns TW_OK or
 * TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_layer_obs_init(struct tw_layer_obs *obs,
                                             int64_t max_rows, int64_t width,
                                             int probes, int experts,
                                             int with_magnitudes,
                                             struct tw_error *err);
/* Asks for active sets: set_start for that many rows; set and set_value are
 * made by the backend. Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_layer_obs_want_sets(struct tw_layer_obs *obs,
                                                  int64_t max_rows,
                                                  struct tw_error *err);
/* Room for that many entries of sets; what they hold stays. For backends.
 * Returns TW_OK or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status tw_layer_obs_set_room(struct tw_layer_obs *obs,
                                                 int64_t entries,
                                                 struct tw_error *err);
/* Zeroes counts, sets first/last to none, rows to `rows` (<= max_rows), bad_*
 * to -1: the state a backend adds to. */
void tw_layer_obs_reset(struct tw_layer_obs *obs, int64_t rows);
void tw_layer_obs_fini(struct tw_layer_obs *obs);

#ifdef __cplusplus
}
#endif
#endif
